// Package baseline is the bench's yardstick for prefill: the plainest program that walks a Llama-type model layer by layer through
// GoMLX, one compiled block called once a layer, with nothing of the engine around it. No edits by row, no cache, no probes of chosen
// rows, no buckets, no streaming; the only input beside the weights is a gain a head.
//
//	m, err := baseline.New(be, checkpoint, baseline.Options{DType: "float32", Layers: 30})
//	defer m.Close()
//	next, err := m.Forward(ids, 64) // [B]: most likely next token after each sequence
//
// It began as the prototype that showed a layer-by-layer walk to be as fast as a whole-model graph. loader/decoder has to keep up
// with it. It reads the same weights, so that both must name the same next token.
//
// Place in the map: below scripts/bench alone; nothing else imports it.
package baseline
