package probe_test

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/stall/internal/probe"
)

// TestCapture checks that a Capture keeps as much as the limit allows and one byte more.
func TestCapture(t *testing.T) {
	for name, c := range map[string]struct {
		size    int
		kept    int
		tooLong bool
	}{
		"nothing":            {0, 0, false},
		"less than 64 KiB":   {1000, 1000, false},
		"64 KiB":             {64 << 10, 64 << 10, false},
		"one byte more":      {64<<10 + 1, 64<<10 + 1, true},
		"very much more":     {10 << 20, 64<<10 + 1, true},
		"more, byte by byte": {64<<10 + 5, 64<<10 + 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Repeat("0123456789", c.size/10+1)[:c.size]
			var from io.Reader = strings.NewReader(text)
			if strings.Contains(name, "byte by byte") {
				from = io.MultiReader(strings.NewReader(text[:1]), strings.NewReader(text[1:7]), strings.NewReader(text[7:]))
			}
			var capture probe.Capture
			n, err := io.CopyBuffer(struct{ io.Writer }{&capture}, struct{ io.Reader }{from}, make([]byte, 1000))
			require.NoError(t, err)
			require.EqualValues(t, c.size, n)
			require.Equal(t, text[:c.kept], string(capture.Bytes()))
			require.Equal(t, c.tooLong, capture.TooLong())
		})
	}
}

// TestCaptureCopies checks that Bytes returns a copy.
func TestCaptureCopies(t *testing.T) {
	var capture probe.Capture
	capture.Write([]byte("a"))
	given := capture.Bytes()
	given[0] = 'b'
	require.Equal(t, "a", string(capture.Bytes()))
	capture.Write([]byte("c"))
	require.Equal(t, "b", string(given))
}

// TestCaptureTooLong checks that an output that was cut is too long, and not half an object.
func TestCaptureTooLong(t *testing.T) {
	var capture probe.Capture
	capture.Write([]byte(padded(100 << 10)))
	_, blind, err := probe.Read(probe.Outcome{Output: capture.Bytes()}, false)
	require.Equal(t, probe.BlindOutput, blind)
	require.ErrorIs(t, err, probe.ErrTooLong)
}

// TestCaptureConcurrent reads a Capture while it is written.
func TestCaptureConcurrent(t *testing.T) {
	var capture probe.Capture
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				capture.Write(bytes.Repeat([]byte("x"), 50))
			}
		})
		wg.Go(func() {
			for !capture.TooLong() {
				capture.Bytes()
			}
		})
	}
	wg.Wait()
	require.Len(t, capture.Bytes(), 64<<10+1)
}
