package harness

import (
	"math"
	"slices"
)

// aboveZero is how far rounding may lift a log-probability above 0.
const aboveZero = 1e-3

// overflow is the reason of numbers that are none: scores beyond what the model's numbers hold end as infinities, as NaN, or as
// "log-probabilities" above 0, which look like numbers and mean nothing.
const overflow = "log-probabilities are not finite or above 0: scores overflowed"

// overflowed tells whether some of the log-probabilities are none.
func overflowed(logProb []float64) bool {
	return slices.ContainsFunc(logProb, func(x float64) bool { return !(x <= aboveZero && x >= -math.MaxFloat64) })
}
