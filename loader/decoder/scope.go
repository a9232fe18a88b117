package decoder

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
)

// Scope is the half-open range of rows (absolute positions) at which an edit acts.
type Scope string

// T is the prompt's true length, q0 its first question row.
const (
	ScopeAll      Scope = "all"      // [0, inf)
	ScopeHaystack Scope = "haystack" // [0, q0)
	ScopeQuestion Scope = "question" // [q0, inf)
	ScopeAnswer   Scope = "answer"   // [T-1, inf): the last prompt row and every generated one
	ScopeLast     Scope = "last"     // [T-1, T)
)

// ScopeRows is the scope of the rows [lo, hi), spelled "lo..hi".
func ScopeRows(lo, hi int) Scope { return Scope(fmt.Sprintf("%d..%d", lo, hi)) }

var rowsForm = regexp.MustCompile(`^(\d{1,9})\.\.(\d{1,9})$`)

// Rows is the half-open range [Lo, Hi) of absolute positions.
type Rows struct{ Lo, Hi int }

// Forever is the upper end of an open range.
const Forever = math.MaxInt32

// Resolve returns the rows of the scope for a prompt of length t with first question row q0 (0 = unknown).
func (s Scope) Resolve(t, q0 int) (Rows, error) {
	switch s {
	case ScopeAll:
		return Rows{0, Forever}, nil
	case ScopeHaystack, ScopeQuestion:
		if q0 <= 0 {
			return Rows{}, fmt.Errorf("scope %s: the prompt has no question span", s)
		}
		if s == ScopeHaystack {
			return Rows{0, q0}, nil
		}
		return Rows{q0, Forever}, nil
	case ScopeAnswer:
		return Rows{t - 1, Forever}, nil
	case ScopeLast:
		return Rows{t - 1, t}, nil
	}
	if m := rowsForm.FindStringSubmatch(string(s)); m != nil {
		lo, _ := strconv.Atoi(m[1]) // nine digits fit
		hi, _ := strconv.Atoi(m[2])
		if lo < hi {
			return Rows{lo, hi}, nil
		}
	}
	return Rows{}, fmt.Errorf("scope %q: want all, haystack, question, answer, last, or rows such as 12..20 (the end is not in it)", string(s))
}
