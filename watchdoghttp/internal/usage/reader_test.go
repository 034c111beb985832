package usage_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/watchdoghttp/internal/usage"
)

func requests(by map[usage.Tool]int64) (all [11]int64) {
	for tool, n := range by {
		all[tool] = n
	}
	return all
}

func by(counts map[usage.Modality]int64) (all [4]int64) {
	for m, n := range counts {
		all[m] = n
	}
	return all
}

// read feeds the chunks of a body that was read to its end.
func read(api usage.API, encoding string, chunks ...[]byte) usage.Result {
	r := usage.NewReader(api, encoding)
	for _, chunk := range chunks {
		r.Feed(chunk)
	}
	return r.End(true)
}

// singly are the bytes of a body, each a chunk.
func singly(body []byte) (chunks [][]byte) {
	for i := range body {
		chunks = append(chunks, body[i:i+1])
	}
	return chunks
}

// zipped is the body compressed, flushed after each line as servers do with streams, or once.
func zipped(tb testing.TB, body string, flush bool) []byte {
	tb.Helper()
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	for line := range strings.Lines(body) {
		fmt.Fprint(w, line)
		if flush {
			require.NoError(tb, w.Flush())
		}
	}
	require.NoError(tb, w.Close())
	return compressed.Bytes()
}

func TestReader(t *testing.T) {
	for _, s := range samples {
		t.Run(s.name, func(t *testing.T) {
			body := []byte(s.body)
			require.Equal(t, s.want, read(s.api, "", body))
			require.Equal(t, s.want, read(s.api, "identity", singly(body)...))
			for cut := range body {
				require.Equal(t, s.want, read(s.api, "", body[:cut], body[cut:]), "cut at %d", cut)
			}
		})
		t.Run(s.name+", compressed", func(t *testing.T) {
			for _, flush := range []bool{false, true} {
				body := zipped(t, s.body, flush)
				require.Equal(t, s.want, read(s.api, "gzip", body))
				require.Equal(t, s.want, read(s.api, "X-GZIP", singly(body)...))
				for cut := range body {
					require.Equal(t, s.want, read(s.api, "gzip", body[:cut], body[cut:]), "cut at %d", cut)
				}
			}
		})
	}
}
