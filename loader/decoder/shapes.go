package decoder

import "math/bits"

// rowBuckets are the numbers of rows that the row program and the output layer are compiled for. A question and its answer are often
// 20 to 45 rows: there a finer step is worth its compilation.
var rowBuckets = [...]int{1, 8, 24, 32, 48, 64}

// rowBucket returns the smallest bucket with room for n rows; n is at most the largest bucket.
func rowBucket(n int) int {
	for _, b := range rowBuckets {
		if n <= b {
			return b
		}
	}
	return rowBuckets[len(rowBuckets)-1]
}

// scoreBucket is the number of rows that the output layer is compiled for: a step of 2 up to 16, as the vocabulary makes each row dear.
func scoreBucket(n int) int {
	if n > 1 && n <= 16 {
		return (n + 1) / 2 * 2
	}
	return rowBucket(n)
}

// LengthBucket is the padded length of a sequence of n tokens: steps of 128 up to 1,024, then eighths of an octave.
func LengthBucket(n int) int {
	step := 128
	if n > 1024 {
		step = 1 << (bits.Len(uint(n-1)) - 4)
	}
	return (max(n, 1) + step - 1) / step * step
}

// powerOfTwo is the smallest power of two that is at least n, at most limit.
func powerOfTwo(n, limit int) int {
	p := 1
	for p < n && p < limit {
		p *= 2
	}
	return p
}

// tailBucket is the capacity of a tail with room for n rows.
func tailBucket(n int) int { return powerOfTwo(max(n, 32), 1<<30) }
