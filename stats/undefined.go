package stats

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
)

// Undefined is the reason why a statistic has no value. Reasons are compared with ==; their text is meant to be printed.
type Undefined string

// The reasons of this package.
const (
	ReasonNoData          Undefined = "no data"
	ReasonTooFew          Undefined = "too few values"
	ReasonMissing         Undefined = "a missing value (NaN) in the data"
	ReasonNotFinite       Undefined = "an infinity in the data, or a number out of range (beyond 1e150)"
	ReasonEmptyGroup      Undefined = "an empty group"
	ReasonGroupOfOne      Undefined = "a group with n < 2"
	ReasonGroupOfTwo      Undefined = "a group with n < 3"
	ReasonOneGroup        Undefined = "fewer than two groups"
	ReasonNoDF            Undefined = "no degrees of freedom"
	ReasonConstant        Undefined = "a constant input"
	ReasonZeroVariance    Undefined = "pooled variance is 0"
	ReasonGroupConstant   Undefined = "a group with variance 0"
	ReasonAllConstant     Undefined = "every group is constant"
	ReasonSecondConstant  Undefined = "variance of the second group is 0"
	ReasonEqualDeviations Undefined = "the deviations are equal inside every group (0 in the denominator)"
	ReasonNoVariation     Undefined = "no variation"
	ReasonNoneInLayers    Undefined = "no variation left inside the layers"
	ReasonTies            Undefined = "ties: no exact p"
	ReasonTooMany         Undefined = "too many values for the exact p: use the asymptotic one"
	ReasonAllTie          Undefined = "all values tie"
	ReasonAllZero         Undefined = "no nonzero difference"
	ReasonNullConstant    Undefined = "null variance is 0"
	ReasonOneSided        Undefined = "every replicate is on one side of the estimate"
	ReasonEqualJackknife  Undefined = "jackknife values are all equal"
	ReasonJackknife       Undefined = "a leave-one-out value is undefined"
	ReasonNoReplicates    Undefined = "too few defined replicates"
	ReasonNoDrop          Undefined = "no drop"
	ReasonZeroBaseline    Undefined = "baseline accuracy is 0"
	ReasonZeroPerplexity  Undefined = "baseline perplexity is 0"
	ReasonNoSuchEffect    Undefined = "no effect, however large, reaches that power"
	ReasonNotBinary       Undefined = "outcomes that are not 0 or 1"
	ReasonOppositeHalves  Undefined = "halves that correlate at -1"
	ReasonNoMoments       Undefined = "the null distribution has no finite mean"
	ReasonExact           Undefined = "every arrangement was enumerated"
)

// Value is a number, or the reason why there is none. It never holds NaN or an infinity. The zero Value is the number 0.
type Value struct {
	x   float64
	why Undefined
}

// Number makes a Value of x; NaN and infinities become [ReasonNotFinite].
func Number(x float64) Value {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return Value{why: ReasonNotFinite}
	}
	return Value{x: x}
}

// NoValue makes a Value without a number. It panics without a reason.
func NoValue(why Undefined) Value {
	if why == "" {
		panic("stats: undefined without a reason")
	}
	return Value{why: why}
}

// Get returns the number, and whether there is one.
func (v Value) Get() (x float64, ok bool) { return v.x, v.why == "" }

// Why returns the reason why there is no number, "" if there is one.
func (v Value) Why() Undefined { return v.why }

// Or returns the number, or x where there is none.
func (v Value) Or(x float64) float64 {
	if v.why != "" {
		return x
	}
	return v.x
}

// String returns the number as %g prints it, or "undefined: " and the reason.
func (v Value) String() string {
	if v.why != "" {
		return "undefined: " + string(v.why)
	}
	return fmt.Sprintf("%g", v.x)
}

// Format prints the number as the verb (%.3f, %g) asks, or what String gives where there is none.
func (v Value) Format(s fmt.State, verb rune) {
	if v.why != "" || verb == 's' {
		_, _ = io.WriteString(s, v.String())
		return
	}
	fmt.Fprintf(s, fmt.FormatString(s, verb), v.x)
}

// MarshalJSON writes the number, or null.
func (v Value) MarshalJSON() ([]byte, error) {
	if v.why != "" {
		return []byte("null"), nil
	}
	return json.Marshal(v.x)
}

// largest is the largest magnitude that data may have: sums of its square stay in float64's range.
const largest = 1e150

// checkData returns why no statistic can be computed from the data, "" if nothing speaks against it.
func checkData(data ...[]float64) Undefined {
	why := Undefined("")
	for _, x := range data {
		for _, v := range x {
			if math.IsNaN(v) {
				return ReasonMissing
			}
			if math.Abs(v) > largest {
				why = ReasonNotFinite
			}
		}
	}
	return why
}

func largestAbs(x []float64) float64 {
	m := 0.0
	for _, v := range x {
		m = max(m, math.Abs(v))
	}
	return m
}

func constant(x []float64) bool {
	for _, v := range x {
		if v != x[0] {
			return false
		}
	}
	return true
}
