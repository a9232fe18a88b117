// Package npz writes arrays as NumPy's .npz archives.
//
// An archive is a zip file, not compressed, with one .npy file an array: a short header in Python's notation (NumPy format 1.0), then
// the elements, little-endian and row-major. numpy.load gives each array under its entry's name. Bytes may stand beside the arrays
// under a name of their own, such as "meta.json"; numpy.load gives them as they are. The same entries make the same bytes.
//
//	err := npz.WriteFile("out.npz", []npz.Entry{
//		{Name: "layer05/z", Shape: []int{2, 3}, Data: []float32{1, 2, 3, 4, 5, 6}},
//		{Name: "meta.json", Data: []byte(`{"model": "tiny"}`)},
//	})
//
// It stands beside the other rooms of harness and uses none of ours. Formats: numpy.lib.format's description of .npy, and
// APPNOTE.TXT of PKWARE for the archive.
package npz
