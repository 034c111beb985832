package watchdoghttp_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

// The streamed body: 1 GiB, in the chunks that a server flushes; and how much of it is read in one turn.
const (
	meteredLength = 1 << 30
	chunkLength   = 4 << 10
	turnLength    = 16 << 20
)

// BenchmarkMetered reads streams of events of 1 GiB from a server on the loopback interface, which flushes every 4 KiB,
// as they are and metered, in turns of 16 MiB, because the machine's speed drifts by more than they differ: of one
// delta a chunk, and of as many as a model's tokens make. It compares the sums of the turns, and their medians, which
// other work on the machine disturbs less. Run it once: -benchtime=1x -count=6.
func BenchmarkMetered(b *testing.B) {
	const before, after = "data: {\"delta\":{\"text\":\"", "\"}}\n\n"
	for name, chunk := range map[string]string{
		"4KiB":   before + strings.Repeat("x", chunkLength-len(before+after)) + after,
		"tokens": strings.Repeat(meteredDelta, chunkLength/len(meteredDelta)+1),
	} {
		b.Run("of="+name, func(b *testing.B) {
			server := httptest.NewServer(streaming(chunk))
			b.Cleanup(func() { server.CloseClientConnections(); server.Close() })
			base := server.Client().Transport
			var took [2][]time.Duration
			for b.Loop() {
				bodies := []io.ReadCloser{
					opened(b, base, server.URL), opened(b, &watchdoghttp.Meter{Base: base}, server.URL),
				}
				for turn := range len(bodies) * meteredLength / turnLength {
					took[turn%2] = append(took[turn%2], drained(b, bodies[turn%2]))
				}
				for _, body := range bodies {
					body.Close()
				}
			}
			plain, metered := total(took[0]), total(took[1])
			b.ReportMetric(float64(b.N)*meteredLength/1e6/plain.Seconds(), "MB/s-plain")
			b.ReportMetric(plain.Seconds()/metered.Seconds(), "x-metered")
			b.ReportMetric(median(took[0]).Seconds()/median(took[1]).Seconds(), "x-metered,median")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// streaming sends the chunk again and again.
func streaming(chunk string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		for sent := 0; sent < meteredLength+len(chunk); sent += len(chunk) {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	}
}

func total(all []time.Duration) (sum time.Duration) {
	for _, one := range all {
		sum += one
	}
	return sum
}

func median(all []time.Duration) time.Duration { return slices.Sorted(slices.Values(all))[len(all)/2] }

func opened(b *testing.B, transport http.RoundTripper, url string) io.ReadCloser {
	b.Helper()
	body := strings.NewReader(meteredCall)
	wd := spending(b, watchdog.Spend{Requests: 99})
	req := request(wd.Context(), b, http.MethodPost, url+"/v1/messages", body)
	resp, err := transport.RoundTrip(req)
	require.NoError(b, err)
	return resp.Body
}

func drained(b *testing.B, body io.Reader) time.Duration {
	b.Helper()
	began, chunk := time.Now(), make([]byte, chunkLength)
	for left := turnLength; left > 0; {
		n, err := body.Read(chunk[:min(left, chunkLength)])
		if err != nil {
			b.Fatal(err)
		}
		left -= n
	}
	return time.Since(began)
}
