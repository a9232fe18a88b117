package gguf

import (
	"encoding/binary"
	"fmt"
	"io"
)

const cursorWindow = 64 << 10

// cursor reads little-endian values of a file in order through one small window. Lengths are checked against the bytes that are
// left before anything is allocated for them.
type cursor struct {
	r    io.ReaderAt
	size int64
	pos  int64

	window []byte // holds [start, start+len)
	start  int64
}

func (c *cursor) left() int64 { return c.size - c.pos }

// view returns the next n bytes without copying; they are valid until the next call. n is at most cursorWindow.
func (c *cursor) view(n int) ([]byte, error) {
	if int64(n) > c.left() {
		return nil, fmt.Errorf("at byte %d: want %d more bytes, file has %d: %w", c.pos, n, c.left(), io.ErrUnexpectedEOF)
	}
	at := c.pos - c.start
	if at < 0 || at+int64(n) > int64(len(c.window)) {
		if c.window == nil {
			c.window = make([]byte, 0, min(cursorWindow, c.size))
		}
		c.window = c.window[:min(int64(cap(c.window)), c.left())]
		c.start, at = c.pos, 0
		if err := readFull(c.r, c.window, c.pos); err != nil {
			c.window = c.window[:0]
			return nil, err
		}
	}
	c.pos += int64(n)
	return c.window[at : at+int64(n)], nil
}

func (c *cursor) u32() (uint32, error) {
	b, err := c.view(4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (c *cursor) u64() (uint64, error) {
	b, err := c.view(8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// stringLength reads the length of a string and checks that the file holds so many bytes.
func (c *cursor) stringLength() (int64, error) {
	n, err := c.u64()
	if err != nil {
		return 0, err
	}
	if n > uint64(c.left()) {
		return 0, fmt.Errorf("at byte %d: string of %d bytes, file has %d left: %w", c.pos-8, n, c.left(), io.ErrUnexpectedEOF)
	}
	return int64(n), nil
}

func (c *cursor) str() (string, error) {
	n, err := c.stringLength()
	if err != nil {
		return "", err
	}
	if n <= cursorWindow {
		b, err := c.view(int(n))
		return string(b), err
	}
	b := make([]byte, n)
	if err := readFull(c.r, b, c.pos); err != nil {
		return "", err
	}
	c.pos += n
	return string(b), nil
}

// readFull reads len(b) bytes at off. io.ReaderAt may return io.EOF together with a full buffer.
func readFull(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("at byte %d: %w", off, err)
}
