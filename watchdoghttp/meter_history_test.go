package watchdoghttp_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

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
				req, err := http.NewRequestWithContext(wd.Context(), http.MethodPost, "http://example.org"+of.path,
					strings.NewReader(of.body))
				require.NoError(t, err)
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
