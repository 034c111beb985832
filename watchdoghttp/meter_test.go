package watchdoghttp_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/watchdoghttp"
	"github.com/seed62658d38/watchdog/watchdoghttp/internal/usage"
)

const (
	meteredCall   = `{"model":"m","max_tokens":10,"messages":[{"role":"user","content":"secret words"}]}`
	meteredStart  = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n"
	meteredDelta  = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"secret words\"}}\n\n"
	meteredEnd    = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":7}}\n\n"
	meteredAnswer = `{"model":"m","content":[],"usage":{"input_tokens":25,"output_tokens":7}}`
)

// mostOf is the admission of a body with one message.
func mostOf(body string) watchdoghttp.Spend {
	return watchdoghttp.Spend{Input: int64(len(body)) + 1024 + 16, Output: 10, Requests: 1}
}

// call sends the body through the meter to a path.
func call(t *testing.T, transport http.RoundTripper, path, body string) (page, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://example.org"+path, strings.NewReader(body))
	require.NoError(t, err)
	return fetch(t, transport.RoundTrip, req)
}

// answering is a base that answers with the body, and says what it was sent.
func answering(status int, header http.Header, body io.ReadCloser, sent *string) http.RoundTripper {
	return based(func(req *http.Request) (*http.Response, error) {
		text, err := io.ReadAll(req.Body)
		if sent != nil {
			*sent = string(text)
		}
		if req.ContentLength != int64(len(text)) {
			err = errors.New("another length")
		}
		return &http.Response{StatusCode: status, Header: header, Body: body, Request: req}, err
	})
}

func texts(body string) io.ReadCloser { return io.NopCloser(strings.NewReader(body)) }

func TestMeter(t *testing.T) {
	t.Run("a call is admitted with its most and settled with its usage", func(t *testing.T) {
		for _, body := range []string{meteredAnswer, meteredStart + meteredDelta + meteredEnd} {
			var sent string
			m := &watchdoghttp.Metered{Base: answering(200, nil, texts(body), &sent)}
			resp, err := call(t, m.Transport(), "/v1/messages", meteredCall)
			require.NoError(t, err)
			require.Equal(t, 0, m.Charged()[0].Ends)
			answer, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, body, string(answer))
			require.Zero(t, strings.Compare(meteredCall, sent), "no byte is changed")
			resp.Body.Close()
			require.Equal(t, []watchdoghttp.Charged{{
				Most: mostOf(meteredCall), Used: watchdoghttp.Spend{Input: 25, Output: 7, Requests: 1}, Ends: 1,
			}}, m.Charged())
		}
	})
	t.Run("every chunk goes out at once, as it came", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			chunks := []string{meteredStart[:30], meteredStart[30:], meteredDelta + meteredEnd[:9], meteredEnd[9:]}
			body := every(t, time.Second, chunks...)
			m := &watchdoghttp.Metered{Base: answering(200, nil, body, nil)}
			resp, err := call(t, &watchdoghttp.Transport{Base: m.Transport()}, "/v1/messages", meteredCall)
			require.NoError(t, err)
			for i, chunk := range chunks {
				buffer := make([]byte, 1024)
				n, err := resp.Body.Read(buffer)
				require.NoError(t, err)
				require.Equal(t, chunk, string(buffer[:n]))
				require.Equal(t, time.Duration(i+1)*time.Second, time.Since(began))
			}
			resp.Body.Close()
			require.Equal(t, watchdoghttp.Spend{Input: 25, Output: 7, Requests: 1}, m.Charged()[0].Used)
		})
	})
	t.Run("one that is cut off settles at the admission, because nobody knows what more was billed", func(t *testing.T) {
		for _, body := range []string{meteredStart + meteredDelta, meteredStart[:50]} {
			m := &watchdoghttp.Metered{Base: answering(200, nil, texts(body), nil)}
			resp, err := call(t, m.Transport(), "/v1/messages", meteredCall)
			require.NoError(t, err)
			_, err = io.ReadFull(resp.Body, make([]byte, len(body)))
			require.NoError(t, err)
			resp.Body.Close()
			require.Equal(t, mostOf(meteredCall), m.Charged()[0].Used)
		}
	})
	t.Run("a status settles one that has no usage", func(t *testing.T) {
		for status, want := range map[int]watchdoghttp.Spend{
			429: {Requests: 1}, 400: {Requests: 1}, 500: mostOf(meteredCall),
		} {
			m := &watchdoghttp.Metered{Base: answering(status, nil, texts(`{"error":{}}`), nil)}
			_, err := call(t, m.Transport(), "/v1/messages", meteredCall)
			require.NoError(t, err)
			require.Equal(t, []watchdoghttp.Charged{{Most: mostOf(meteredCall), Used: want, Ends: 1}}, m.Charged())
		}
	})
	t.Run("only one that was never connected is void", func(t *testing.T) {
		for _, of := range []struct {
			err  error
			void bool
			used watchdoghttp.Spend
		}{
			{&net.OpError{Op: "dial", Err: errHostGone}, true, watchdoghttp.Spend{}},
			{&net.OpError{Op: "read", Err: errHostGone}, false, mostOf(meteredCall)},
			{context.Canceled, false, mostOf(meteredCall)},
		} {
			m := &watchdoghttp.Metered{Base: based(func(*http.Request) (*http.Response, error) { return nil, of.err })}
			_, err := call(t, m.Transport(), "/v1/messages", meteredCall)
			require.ErrorIs(t, err, of.err)
			require.Equal(t, []watchdoghttp.Charged{{Most: mostOf(meteredCall), Used: of.used, Void: of.void, Ends: 1}}, m.Charged())
		}
	})
}

func TestMeteredRequest(t *testing.T) {
	t.Run("a call that is refused is not sent, and its body is closed", func(t *testing.T) {
		for _, of := range []struct {
			meter *watchdoghttp.Metered
			path  string
			body  string
			want  error
		}{
			{&watchdoghttp.Metered{Refuse: true}, "/v1/messages", meteredCall, watchdoghttp.ErrRefused},
			{&watchdoghttp.Metered{}, "/v1/messages", `{"messages":[]}`, &usage.Unbounded{Reason: usage.NoMaximum}},
			{&watchdoghttp.Metered{}, "/v1/embeddings", `{}`, &usage.Unbounded{Reason: usage.Unknown, Part: "embeddings", Model: "*"}},
		} {
			of.meter.Base = based(func(*http.Request) (*http.Response, error) { panic("sent") })
			body := &closing{Reader: strings.NewReader(of.body)}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://example.org"+of.path, body)
			require.NoError(t, err)
			req.GetBody = func() (io.ReadCloser, error) { return texts(of.body), nil }
			_, err = fetch(t, of.meter.Transport().RoundTrip, req)
			require.ErrorContains(t, err, of.want.Error())
			require.True(t, body.closed)
			require.Empty(t, of.meter.Charged())
		}
	})
	t.Run("or it is counted, and said once", func(t *testing.T) {
		var log bytes.Buffer
		m := &watchdoghttp.Metered{Count: true, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		transport := m.Transport()
		for range 3 {
			m.Base = answering(200, nil, texts(meteredAnswer), nil)
			transport = sameMeter(m, transport)
			resp, err := call(t, transport, "/v1/messages", `{"model":"m","messages":[]}`)
			require.NoError(t, err)
			io.Copy(io.Discard, resp.Body)
		}
		for _, charged := range m.Charged() {
			require.Equal(t, watchdoghttp.Charged{
				Most: watchdoghttp.Spend{Requests: 1}, Used: watchdoghttp.Spend{Input: 25, Output: 7, Requests: 1}, Ends: 1,
			}, charged)
		}
		require.Equal(t, 1, strings.Count(log.String(), "call of a model is not bounded"))
		require.Equal(t, 1, strings.Count(log.String(), "model has no price"))
		require.NotContains(t, log.String(), "secret")
	})
	t.Run("and the names of models, which requests choose, are not remembered without end", func(t *testing.T) {
		var log bytes.Buffer
		m := &watchdoghttp.Metered{Count: true, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		transport := m.Transport()
		for i := range 1200 {
			m.Base = answering(200, nil, texts(meteredAnswer), nil)
			transport = sameMeter(m, transport)
			resp, err := call(t, transport, "/v1/messages", fmt.Sprintf(`{"model":"m%d","messages":[]}`, i))
			require.NoError(t, err)
			io.Copy(io.Discard, resp.Body)
		}
		warned := strings.Count(log.String(), "call of a model is not bounded") + strings.Count(log.String(), "model has no price")
		require.Equal(t, 1000, warned)
		require.Equal(t, 1, strings.Count(log.String(), "no other model is warned of"))
	})
	t.Run("money takes the dearest class, and then its own", func(t *testing.T) {
		prices, err := usage.ReadPrices([]byte(`{"currency":"USD","date":"2026-08-01","models":{"m":{"input":1000000,
			"cache_write_1h":2000000,"output":10000000}}}`), "USD")
		require.NoError(t, err)
		m := &watchdoghttp.Metered{Base: answering(200, nil, texts(meteredAnswer), nil), Prices: prices}
		resp, err := call(t, m.Transport(), "/v1/messages", meteredCall)
		require.NoError(t, err)
		io.Copy(io.Discard, resp.Body)
		charged := m.Charged()[0]
		require.Equal(t, 2*charged.Most.Input+100, charged.Most.Cost)
		require.Equal(t, int64(25+70), charged.Used.Cost)
	})
	t.Run("what is no call of a model passes as it is", func(t *testing.T) {
		for path, body := range map[string]string{"/v1/other": meteredCall, "/v1/messages": `{"text":1}`} {
			var sent string
			m := &watchdoghttp.Metered{Refuse: true, Base: answering(200, nil, texts("x"), &sent)}
			_, err := call(t, m.Transport(), path, body)
			require.NoError(t, err)
			require.Equal(t, body, sent)
			require.Empty(t, m.Charged())
		}
	})
	t.Run("it asks for usage only if it is told to", func(t *testing.T) {
		const body = `{"model":"m","max_tokens":10,"messages":[{}],"stream":true}`
		for ask, want := range map[bool]string{false: body, true: `{"stream_options":{"include_usage":true},` + body[1:]} {
			var sent string
			m := &watchdoghttp.Metered{IncludeUsage: ask, Base: answering(200, nil, texts("data: [DONE]\n\n"), &sent)}
			resp, err := call(t, m.Transport(), "/v1/chat/completions", body)
			require.NoError(t, err)
			io.Copy(io.Discard, resp.Body)
			require.Equal(t, want, sent)
			require.Equal(t, mostOf(body), m.Charged()[0].Used, "without usage it is the admission")
		}
	})
	t.Run("a compressed body goes out compressed", func(t *testing.T) {
		var zipped bytes.Buffer
		w := gzip.NewWriter(&zipped)
		io.WriteString(w, meteredAnswer)
		w.Close()
		for encoding, want := range map[string]watchdoghttp.Spend{
			"gzip": {Input: 25, Output: 7, Requests: 1}, "br": mostOf(meteredCall),
		} {
			body := bytes.NewReader(zipped.Bytes())
			m := &watchdoghttp.Metered{Base: answering(200, http.Header{"Content-Encoding": {encoding}}, io.NopCloser(body), nil)}
			resp, err := call(t, m.Transport(), "/v1/messages", meteredCall)
			require.NoError(t, err)
			answer, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, zipped.Bytes(), answer)
			require.Equal(t, want, m.Charged()[0].Used)
		}
	})
	t.Run("it settles once, whoever reads and closes at the same time", func(t *testing.T) {
		for range 200 {
			read, write := io.Pipe()
			m := &watchdoghttp.Metered{Base: answering(200, nil, read, nil)}
			resp, err := call(t, m.Transport(), "/v1/messages", meteredCall)
			require.NoError(t, err)
			var all sync.WaitGroup
			all.Go(func() { io.WriteString(write, meteredStart); write.Close() })
			all.Go(func() { io.Copy(io.Discard, resp.Body) })
			all.Go(func() { resp.Body.Close() })
			all.Wait()
			require.Equal(t, 1, m.Charged()[0].Ends)
		}
	})
}

// sameMeter keeps a meter whose base changes.
func sameMeter(m *watchdoghttp.Metered, transport http.RoundTripper) http.RoundTripper {
	watchdoghttp.SetBase(transport, m.Base)
	return transport
}

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

// The streamed body: 1 GiB, in the chunks that a server flushes; and how much of it is read in one turn.
const (
	meteredLength = 1 << 30
	chunkLength   = 4 << 10
	turnLength    = 16 << 20
)

// BenchmarkMetered reads streams of events of 1 GiB from a server on the loopback interface, which flushes every 4 KiB,
// as they are and metered, in turns of 16 MiB, because the machine's speed drifts by more than they differ: of one delta
// a chunk, and of as many as a model's tokens make. It compares the sums of the turns, and their medians, which other
// work on the machine disturbs less. Run it once: -benchtime=1x -count=6.
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
					opened(b, base, server.URL), opened(b, (&watchdoghttp.Metered{Base: base}).Transport(), server.URL),
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
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url+"/v1/messages", body)
	require.NoError(b, err)
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
