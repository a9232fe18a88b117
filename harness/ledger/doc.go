// Package ledger is the arithmetic of the score ledger: what one head's attention scores are made of, plane by plane, and what an edit of that
// head does to them. All of it follows from one run of the unmodified model.
//
// A head's queries, keys and values before rotation fix its scores under any edit of its planes, dimensions or table: exactly, up to rounding.
// They fix what it puts out, too; times the derivative of an outcome by that output, this is the outcome's change to first order.
//
// An example:
//
//	h, err := ledger.NewHead(m, at, trace)          // trace has TraceOptions.QK of the head's layer
//	...
//	edit := h.Edit(headEdit)                        // of decoder.Model.HeadEdit
//	change := h.ScoreChange(row, edit, code, needle)
//	first := h.FirstOrder([]*ledger.Edit{edit}, [][]float32{gradient.Z[at.Layer]}, decoder.Rows{Lo: 0, Hi: rows})
//
// It stands on loader/decoder. Package harness predicts the conditions of experiments with it, harness/planes prints it for single heads.
package ledger
