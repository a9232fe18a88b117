package rope

import "fmt"

// Layout says which two dimensions of a head make up a plane. It changes no frequency: plane i is plane i in both.
type Layout string

// R is the number of rotated dimensions, the first ones of the head; those behind it belong to no plane.
const (
	RotateHalf  Layout = "rotate_half" // plane i is dimensions i and i+R/2: checkpoints in Hugging Face's form
	Interleaved Layout = "interleaved" // plane i is dimensions 2i and 2i+1: GPT-J, Cohere, GLM, llama.cpp's files of Llama
)

// Check refuses what is neither.
func (l Layout) Check() error {
	if l == RotateHalf || l == Interleaved {
		return nil
	}
	return fmt.Errorf("layout: got %q, want %q or %q", string(l), RotateHalf, Interleaved)
}

// LayoutOf names the layout by whether members of a plane lie side by side.
func LayoutOf(interleaved bool) Layout {
	if interleaved {
		return Interleaved
	}
	return RotateHalf
}

// Members are the two dimensions of a plane.
func (l Layout) Members(plane, rotaryDim int) (a, b int) {
	if l == Interleaved {
		return 2 * plane, 2*plane + 1
	}
	return plane, plane + rotaryDim/2
}

// Dims lists the dimensions of planes in their order, both members of each side by side.
func (l Layout) Dims(planes []int, rotaryDim int) []int {
	out := make([]int, 0, 2*len(planes))
	for _, p := range planes {
		a, b := l.Members(p, rotaryDim)
		out = append(out, a, b)
	}
	return out
}

// Plane is the plane of a dimension, -1 for one that does not rotate.
func (l Layout) Plane(dim, rotaryDim int) int {
	switch {
	case dim < 0 || dim >= rotaryDim:
		return -1
	case l == Interleaved:
		return dim / 2
	}
	return dim % (rotaryDim / 2)
}

// Touched counts the planes with at least one member among distinct dimensions, and those with both. A set of dimensions that is not made of
// whole planes does something else than to remove planes: of 16 random dimensions of 128, 15 planes are touched and one is whole.
func (l Layout) Touched(dims []int, rotaryDim int) (touched, whole int) {
	members := map[int]int{}
	for _, d := range dims {
		if p := l.Plane(d, rotaryDim); p >= 0 {
			members[p]++
		}
	}
	for _, n := range members {
		if n == 2 {
			whole++
		}
	}
	return len(members), whole
}
