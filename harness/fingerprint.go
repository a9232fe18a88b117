package harness

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"runtime"
	"sync"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/safetensors"
)

// WeightsSHA256 hashes every tensor of a checkpoint: names in order, each with its dtype, shape and the sha256 of its bytes. The same
// tensors in other shards have the same hash; a single changed element has another.
func WeightsSHA256(ctx context.Context, c *loader.Checkpoint) (string, error) {
	names := c.Weights.Names()
	lines, errs := make([]string, len(names)), make([]error, len(names))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(names)) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range next {
				lines[i], errs[i] = tensorLine(c.Weights, names[i])
			}
		}()
	}
	for i := range names {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return "", err
	}
	all := sha256.New()
	for i, line := range lines {
		if errs[i] != nil {
			return "", fmt.Errorf("hash of the weights: %w", errs[i])
		}
		all.Write([]byte(line))
	}
	return hex.EncodeToString(all.Sum(nil)), nil
}

func tensorLine(w *safetensors.Store, name string) (string, error) {
	info, ok := w.Info(name)
	if !ok {
		return "", fmt.Errorf("tensor %s is gone", name)
	}
	data, err := w.Bytes(name)
	if err != nil {
		return "", err
	}
	defer w.Release(name) // hashing need not keep the whole checkpoint resident
	return fmt.Sprintf("%s %s %v %x\n", name, info.DType, info.Shape, sha256.Sum256(data)), nil
}
