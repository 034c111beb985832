package watchdoghttp_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

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
				meter := &watchdoghttp.Meter{Base: answering(http.StatusOK, http.Header{}, io.NopCloser(body), nil)}
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
