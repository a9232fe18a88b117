package harness

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// units of ParseBytes, longest suffix first.
var byteUnits = []struct {
	suffix string
	factor float64
}{
	{"TIB", 1 << 40}, {"GIB", 1 << 30}, {"MIB", 1 << 20}, {"KIB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"T", 1 << 40}, {"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}, {"B", 1}, {"", 1},
}

// ParseBytes reads a size such as "6GB", "512MiB", "4G" (binary, as of other tools) or a plain number of bytes. It is positive.
func ParseBytes(s string) (int64, error) {
	upper := strings.ToUpper(strings.TrimSpace(s))
	for _, u := range byteUnits {
		if !strings.HasSuffix(upper, u.suffix) {
			continue
		}
		x, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(upper, u.suffix)), 64)
		x *= u.factor
		if err != nil || !(x >= 1) || x >= math.MaxInt64 {
			return 0, fmt.Errorf("%q is not a positive size", s)
		}
		return int64(x), nil
	}
	return 0, fmt.Errorf("%q is not a positive size", s)
}

// FormatBytes shows a size with three digits and a binary unit.
func FormatBytes(n int64) string {
	x, unit := float64(n), "B"
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if x < 1024 {
			break
		}
		x, unit = x/1024, u
	}
	return strconv.FormatFloat(x, 'g', 4, 64) + " " + unit
}
