package loadertest

import "github.com/headscope/headscope/loader/rope"

// rotation turns planes of two dimensions by angles that grow with the position.
type rotation struct {
	interleaved bool
	planes      int
	cos, sin    [][]float64 // [T][planes]
}

// rotations builds each table of the model for a run of so many tokens.
func (r *Reference) rotations(tokens int) ([]rotation, error) {
	out := make([]rotation, len(r.c.Spec.Tables))
	for i, config := range r.c.Spec.Tables {
		out[i].interleaved = r.c.Spec.Interleaved
		built := 0 // length of the pass that cos and sin are for
		var cos, sin [][]float64
		for row := range tokens {
			length := tokens
			if r.Pass != nil {
				length = r.Pass(row)
			}
			if length != built {
				table, err := rope.New(config, r.c.Spec.HeadDim, length)
				if err != nil {
					return nil, err
				}
				c, s := table.CosSin(tokens, r.Precision)
				built, out[i].planes = length, table.Planes()
				cos, sin = rowsOf(widened(c), table.Planes()), rowsOf(widened(s), table.Planes())
			}
			out[i].cos, out[i].sin = append(out[i].cos, cos[row]), append(out[i].sin, sin[row])
		}
	}
	return out, nil
}

// members returns the two dimensions of a plane: neighbours, or one of each half of the dimensions that rotate.
func (r rotation) members(plane int) (a, b int) {
	if r.interleaved {
		return 2 * plane, 2*plane + 1
	}
	return plane, plane + r.planes
}

// apply turns the planes of each row, [head][T][headDim], by the angles of its position; the other dimensions pass.
func (r rotation) apply(x [][][]float64) [][][]float64 {
	out := make([][][]float64, len(x))
	for h := range x {
		for t, row := range x[h] {
			turned := append([]float64(nil), row...)
			for plane := range r.planes {
				a, b := r.members(plane)
				c, s := r.cos[t][plane], r.sin[t][plane]
				turned[a], turned[b] = row[a]*c-row[b]*s, row[b]*c+row[a]*s
			}
			out[h] = append(out[h], turned)
		}
	}
	return out
}
