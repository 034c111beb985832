package watchdoghttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

// A modelServer answers as Anthropic does: it takes in what it is told to, and answers with as much as it wants, but
// not with more than the request allows.
type modelServer struct {
	input, wants int64
	takes        time.Duration

	mu     sync.Mutex
	bodies []string
	billed int64
}

func (s *modelServer) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	if err := req.Body.Close(); err != nil {
		return nil, err
	}
	if int64(len(body)) != req.ContentLength {
		return nil, fmt.Errorf("length %d of %d bytes", req.ContentLength, len(body))
	}
	time.Sleep(s.takes)
	var asked maximum
	if err := json.Unmarshal(body, &asked); err != nil {
		return nil, err
	}
	output, stop := s.wants, "end_turn"
	if output >= asked.Max {
		output, stop = asked.Max, "max_tokens"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodies = append(s.bodies, string(body))
	s.billed += s.input + output
	answer := fmt.Sprintf(`{"type":"message","model":"m","stop_reason":%q,"usage":{"input_tokens":%d,"output_tokens":%d}}`,
		stop, s.input, output)
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(answer)), Request: req,
	}, nil
}

type maximum struct {
	Max int64 `json:"max_tokens"`
}

func callOf(most int64) string {
	return fmt.Sprintf(`{"model":"m","max_tokens":%d,"messages":[{"role":"user","content":"x"}]}`, most)
}

// TestMeterLowers protects that a call is made smaller rather than refused, in exactly one number, and that an answer
// which ends at that is the limit's trip.
func TestMeterLowers(t *testing.T) {
	const input = 1024 + 16 // what the bound adds to the body
	tokens := func(n int64) watchdog.Spend { return watchdog.Spend{Tokens: n} }
	for name, c := range map[string]struct {
		limits  watchdog.Spend
		body    string
		wants   int64
		sent    string // empty for none
		refused bool
		fired   bool
	}{
		"what fits is sent as it is": {tokens(100_000), callOf(32_000), 10, callOf(32_000), false, false},
		"what does not fit is lowered": {
			tokens(20_000 + input + int64(len(callOf(32_000)))), callOf(32_000), 10, callOf(20_000), false, false,
		},
		"to the floor and no further": {
			tokens(1024 + input + int64(len(callOf(32_000)))), callOf(32_000), 10, callOf(1024), false, false,
		},
		"below that it is refused": {
			tokens(1023 + input + int64(len(callOf(32_000)))), callOf(32_000), 10, "", true, true,
		},
		"a small one is not raised": {tokens(2000), callOf(100), 10, callOf(100), false, false},
		"an answer that ends at the number is the limit's trip": {
			tokens(20_000 + input + int64(len(callOf(32_000)))), callOf(32_000), 40_000, callOf(20_000), false, true,
		},
		"one that ends at the request's own is not": {tokens(100_000), callOf(5000), 40_000, callOf(5000), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			wd := spending(t, c.limits)
			server := &modelServer{input: 20, wants: c.wants}
			_, err := post(t, wd, &watchdoghttp.Meter{Base: server}, "http://model.test", c.body)
			var refused *watchdog.Refused
			switch {
			case c.refused:
				require.ErrorAs(t, err, &refused)
				assert.Empty(t, server.bodies)
			default:
				require.NoError(t, err)
				assert.Equal(t, []string{c.sent}, server.bodies)
				assert.Equal(t, []int64{server.billed}, used(t, wd))
			}
			_, fired := wd.Fired()
			assert.Equal(t, c.fired, fired)
		})
	}
	t.Run("KeepMaximum has it refused", func(t *testing.T) {
		wd := spending(t, tokens(20_000))
		server := &modelServer{}
		client := &watchdoghttp.Meter{Base: server, KeepMaximum: true}
		_, err := post(t, wd, client, "http://model.test", callOf(32_000))
		var refused *watchdog.Refused
		require.ErrorAs(t, err, &refused)
		assert.Empty(t, server.bodies)
	})
	t.Run("cost is paid for the tokens that are granted", func(t *testing.T) {
		wd := spending(t, watchdog.Spend{Cost: watchdog.Money{Micros: 10_000, Currency: "EUR"}})
		server := &modelServer{input: 1000, wants: 1 << 40}
		client := &watchdoghttp.Meter{Base: server, Prices: pricesOf(t)}
		_, err := post(t, wd, client, "http://model.test", callOf(32_000))
		require.NoError(t, err)
		assert.LessOrEqual(t, used(t, wd)[0], int64(10_000))
		assert.Greater(t, used(t, wd)[0], int64(9500), "%v", server.bodies)
		_, fired := wd.Fired()
		assert.True(t, fired)
	})
}

// TestMeterWaits protects that calls at once wait for one another in place of being refused, and that the wait ends.
func TestMeterWaits(t *testing.T) {
	bubble(t, "until there is room", func(t *testing.T) {
		wd := spending(t, watchdog.Spend{Tokens: 60_000})
		server := &modelServer{input: 100, wants: 400, takes: 10 * time.Second}
		client := &watchdoghttp.Meter{Base: server}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				_, err := post(t, wd, client, "http://model.test", callOf(32_000))
				assert.NoError(t, err)
			})
		}
		all.Wait()
		assert.Equal(t, []int64{8 * 500}, used(t, wd))
		for _, body := range server.bodies {
			var asked maximum
			require.NoError(t, json.Unmarshal([]byte(body), &asked))
			assert.GreaterOrEqual(t, asked.Max, int64(7000), "it is not made tiny while others are under way")
		}
	})
	bubble(t, "no longer than they may", func(t *testing.T) {
		wd := spending(t, watchdog.Spend{Tokens: 3000})
		server := &modelServer{takes: time.Hour}
		meter := &watchdoghttp.Meter{Base: server, Wait: 5 * time.Second}
		hold(wd, meter)
		began := time.Now()
		_, err := post(t, wd, meter, "http://model.test", callOf(1900))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 5*time.Second, time.Since(began))
		_, fired := wd.Fired()
		assert.False(t, fired)
		time.Sleep(2 * time.Hour)
	})
	bubble(t, "None has them not wait", func(t *testing.T) {
		wd := spending(t, watchdog.Spend{Tokens: 3000})
		meter := &watchdoghttp.Meter{Base: &modelServer{takes: time.Hour}, Wait: watchdog.None}
		hold(wd, meter)
		_, err := post(t, wd, meter, "http://model.test", callOf(1900))
		var refused *watchdog.Refused
		require.ErrorAs(t, err, &refused)
		time.Sleep(2 * time.Hour)
	})
}

// hold has a call of 1900 tokens of output under way.
func hold(wd *watchdog.Watchdog, meter http.RoundTripper) {
	req, err := http.NewRequestWithContext(
		wd.Context(), http.MethodPost, "http://model.test/v1/messages", strings.NewReader(callOf(1900)))
	if err != nil {
		panic(err)
	}
	go func() {
		if resp, err := meter.RoundTrip(req); err == nil {
			_ = resp.Body.Close()
		}
	}()
	synctest.Wait()
}

// A hangingStore never answers once it hangs.
type hangingStore struct {
	watchdog.Memory
	hangs atomic.Bool
}

func (s *hangingStore) Take(ctx context.Context, slice watchdog.Slice) (watchdog.Grant, error) {
	if !s.hangs.Load() {
		return s.Memory.Take(ctx, slice)
	}
	<-ctx.Done()
	return watchdog.Grant{}, ctx.Err()
}

// TestMeterStoreHangs protects that nobody is told to wait for calls that there are not.
func TestMeterStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &hangingStore{}
		wd, err := watchdog.New(t.Context(), watchdog.Run{}, watchdog.Config{
			Logger: slog.New(slog.DiscardHandler), SpendStore: store,
			Scopes: []watchdog.SharedSpend{{Scope: "all", Spend: watchdog.Spend{Tokens: 100_000}}},
		})
		require.NoError(t, err)
		defer wd.Close()
		store.hangs.Store(true)
		server := &modelServer{}
		_, err = post(t, wd, &watchdoghttp.Meter{Base: server}, "http://model.test", callOf(1900))
		require.Error(t, err)
		require.NotErrorIs(t, err, watchdoghttp.ErrBusy)
		assert.Empty(t, server.bodies)
	})
}

// conversation is a call whose conversation has so many turns of a thousand bytes.
func conversation(turns int) string {
	said := make([]string, turns)
	for i := range said {
		said[i] = fmt.Sprintf(`{"role":"user","content":"%d %s"}`, i, strings.Repeat("word ", 200))
	}
	return `{"model":"m","max_tokens":10,"messages":[` + strings.Join(said, ",") + `]}`
}

// TestMeterHistory protects that a call is admitted with what is new in it, and who knows what the others had.
func TestMeterHistory(t *testing.T) {
	// admitted is what each call of a conversation that grows was admitted with, of which 300 are the API's answer.
	admitted := func(t *testing.T, wd *watchdog.Watchdog, in func(turn int) *watchdog.Watchdog) (most []int64) {
		t.Helper()
		client := &watchdoghttp.Meter{Base: based(func(*http.Request) (*http.Response, error) {
			most = append(most, wd.Usage()[0].Admitted)
			answer := `{"model":"m","usage":{"input_tokens":300,"output_tokens":10}}`
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: texts(answer)}, nil
		})}
		for turn := range 3 {
			_, err := post(t, in(turn), client, "http://model.test", conversation(turn+1))
			require.NoError(t, err)
		}
		return most
	}
	t.Run("the calls of a run", func(t *testing.T) {
		wd := spending(t, watchdog.Spend{InputTokens: 100_000})
		most := admitted(t, wd, func(int) *watchdog.Watchdog { return wd })
		require.Greater(t, most[0], int64(2000), "nothing is known before the first call")
		for _, next := range most[1:] {
			require.InDelta(t, 300+1000, next, 100, "what the one before took in, and one turn by its bytes")
		}
	})
	t.Run("the calls of its layers, each in another one", func(t *testing.T) {
		wd := spending(t, watchdog.Spend{InputTokens: 100_000})
		most := admitted(t, wd, func(turn int) *watchdog.Watchdog {
			step, err := wd.Layer(fmt.Sprint("step ", turn), watchdog.Budget{})
			require.NoError(t, err)
			t.Cleanup(func() { step.Close() })
			return step
		})
		require.InDelta(t, 300+1000, most[2], 100)
	})
	t.Run("not those of another run", func(t *testing.T) {
		both := []*watchdog.Watchdog{
			spending(t, watchdog.Spend{InputTokens: 100_000}), spending(t, watchdog.Spend{InputTokens: 100_000}),
		}
		most := admitted(t, both[1], func(turn int) *watchdog.Watchdog { return both[turn/2] })
		require.Greater(t, most[2], int64(3000))
	})
	t.Run("what a run taught goes with it", func(t *testing.T) {
		require.Eventually(t, func() bool {
			runtime.GC()
			return watchdoghttp.Histories() == 0
		}, time.Minute, time.Millisecond)
	})
}

// readerFunc is a reader.
type readerFunc func() (int, error)

func (f readerFunc) Read([]byte) (int, error) { return f() }

// TestMeterLast protects the next call of a client that has the last of an answer: it finds the one before settled,
// though the end of the body is still to come.
func TestMeterLast(t *testing.T) {
	const (
		messages, chat, responses = "/v1/messages", "/v1/chat/completions", "/v1/responses"

		chatCall = `{"model":"m","stream":true,"stream_options":{"include_usage":true},` +
			`"max_completion_tokens":10,"messages":[]}`
		chatUsage = `{"choices":[],"usage":{"prompt_tokens":25,"completion_tokens":7}}`
		inputCall = `{"model":"m","max_output_tokens":20,"input":"x"}`
		response  = `{"status":"completed","usage":{"input_tokens":25,"output_tokens":7}}`
		stop      = `{"type":"message_stop"}`
	)
	says := func(data string) string { return "data: " + data + "\n\n" }
	for name, of := range map[string]struct {
		path, body, answer string
		open               bool
	}{
		"a message":                {messages, meteredCall, meteredAnswer, false},
		"a stream of a message":    {messages, meteredCall, meteredStart + meteredEnd + says(stop), false},
		"a message that can go on": {messages, meteredCall, meteredStart + says(stop) + meteredEnd, true},
		"a completion": {
			chat, chatCall, strings.Replace(chatUsage, "[]", "[{}]", 1), false,
		},
		"a stream of a completion":        {chat, chatCall, says(chatUsage) + says("[DONE]"), false},
		"a completion that can tell more": {chat, chatCall, says(chatUsage), true},
		"a response":                      {responses, inputCall, response, false},
		"a stream of a response": {
			responses, inputCall, says(`{"type":"response.completed","response":` + response + `}`), false,
		},
		"a response that is in progress": {
			responses, inputCall, strings.Replace(response, "completed", "in_progress", 1), true,
		},
		"an answer in which nothing is read": {messages, meteredCall, `{"model":"m"}`, true},
	} {
		for cut, chunked := range map[string]func(io.Reader) io.Reader{
			"": func(r io.Reader) io.Reader { return r }, ", byte by byte": iotest.OneByteReader,
		} {
			t.Run(name+cut, func(t *testing.T) {
				wd := spending(t, watchdog.Spend{Tokens: 100_000})
				atLast := false
				body := io.MultiReader(chunked(strings.NewReader(of.answer)), readerFunc(func() (int, error) {
					atLast = true
					require.Equal(t, of.open, wd.Usage()[0].Admitted > 0)
					return 0, io.EOF
				}))
				meter := &watchdoghttp.Meter{Base: answering(http.StatusOK, http.Header{}, io.NopCloser(body))}
				req := request(wd.Context(), t, http.MethodPost, "http://example.org"+of.path, strings.NewReader(of.body))
				resp, err := meter.RoundTrip(req)
				require.NoError(t, err)
				text, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, of.answer, string(text))
				require.True(t, atLast)
				require.Zero(t, wd.Usage()[0].Admitted)
			})
		}
	}
}

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
