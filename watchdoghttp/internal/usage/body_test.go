package usage_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/watchdoghttp/internal/usage"
)

func post(t *testing.T, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://example.org/v1/messages", body)
	require.NoError(t, err)
	return req
}

// TestPeek says what is read of the body "hello", and that what is sent stays as it is.
func TestPeek(t *testing.T) {
	all := []byte("hello")
	copied := func(body io.ReadCloser, err error) func(*http.Request) {
		return func(req *http.Request) {
			req.GetBody = func() (io.ReadCloser, error) { return body, err }
		}
	}
	encoded := func(encoding string) func(*http.Request) {
		return func(req *http.Request) { req.Header.Set("Content-Encoding", encoding) }
	}
	held, recorded := inMemory{bytes.NewBuffer(all)}, &recording{Reader: bytes.NewReader(all)}
	for name, of := range map[string]struct {
		prepare func(*http.Request)
		limit   int64
		want    usage.Reason
	}{
		"a body of the limit":           {func(*http.Request) {}, 5, usage.Readable},
		"one that is longer":            {func(*http.Request) {}, 4, usage.TooLong},
		"one of unknown length":         {func(req *http.Request) { req.ContentLength = -1 }, 5, usage.Readable},
		"one that turns out longer":     {func(req *http.Request) { req.ContentLength = -1 }, 4, usage.TooLong},
		"one that says it is longer":    {func(req *http.Request) { req.ContentLength = 100 }, 10, usage.TooLong},
		"one that can be read once":     {func(req *http.Request) { req.GetBody = nil }, 10, usage.Unseekable},
		"a copy that cannot be had":     {copied(nil, errors.New("gone")), 10, usage.Unseekable},
		"one that is not gzip":          {encoded("gzip"), 10, usage.Encoded},
		"one that is compressed anew":   {encoded("br"), 10, usage.Encoded},
		"a copy in memory":              {copied(held, nil), 5, usage.Readable},
		"a copy in memory, longer":      {copied(held, nil), 4, usage.TooLong},
		"a copy that keeps what it had": {copied(recorded, nil), 5, usage.Readable},
	} {
		t.Run(name, func(t *testing.T) {
			req := post(t, strings.NewReader("hello"))
			of.prepare(req)
			body, why := usage.Peek(req, of.limit)
			require.Equal(t, of.want, why)
			if why == usage.Readable {
				require.Equal(t, "hello", string(body))
			}
			if strings.HasPrefix(name, "a copy in memory") && why == usage.Readable {
				require.Same(t, &all[0], &body[0], "it is read where it lies")
			}
			sent, err := io.ReadAll(req.Body)
			require.NoError(t, err)
			require.Equal(t, "hello", string(sent))
		})
	}
	t.Run("no body is an empty one", func(t *testing.T) {
		body, why := usage.Peek(post(t, nil), 10)
		require.Empty(t, body)
		require.Equal(t, usage.Readable, why)
	})
}

type inMemory struct{ *bytes.Buffer }

func (inMemory) Close() error { return nil }

// recording is a body that keeps what was read of it, for a log.
type recording struct {
	io.Reader

	read bytes.Buffer
}

func (r *recording) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.read.Write(p[:n])
	return n, err
}

func (r *recording) Bytes() []byte { return r.read.Bytes() }

func (*recording) Close() error { return nil }

func TestWithUsage(t *testing.T) {
	for _, of := range []struct{ name, body, want string }{
		{"no options", `{"messages":[],"stream":true}`, `{"stream_options":{"include_usage":true},"messages":[],"stream":true}`},
		{"other options", ` {"messages":[],"stream":true, "stream_options" : { "include_obfuscation":false}}`,
			` {"messages":[],"stream":true, "stream_options" : {"include_usage":true, "include_obfuscation":false}}`},
		{"empty options", `{"stream_options":{ },"stream":true,"messages":[]}`,
			`{"stream_options":{"include_usage":true },"stream":true,"messages":[]}`},
		{"null options", "\n{\"stream_options\":null,\"stream\":true,\"messages\":[]}",
			"\n{\"stream_options\":{\"include_usage\":true},\"stream\":true,\"messages\":[]}"},
		{"declined", `{"stream_options":{"include_usage":false},"stream":true,"messages":[]}`, ""},
		{"asked for", `{"stream_options":{"include_usage":true},"stream":true,"messages":[]}`, ""},
		{"no stream", `{"messages":[]}`, ""},
		{"no JSON", `{"messages":[],"stream":true`, ""},
	} {
		t.Run(of.name, func(t *testing.T) {
			call := readCall(t, usage.Chat, of.body)
			change, ok := call.WithUsage()
			require.Equal(t, of.want != "", ok)
			if !ok {
				return
			}
			changed := changed([]byte(of.body), change)
			require.Equal(t, of.want, string(changed))
			require.True(t, json.Valid(changed))
			require.True(t, readCall(t, usage.Chat, string(changed)).Usage)
		})
	}
	body := `{"messages":[],"stream":true}`
	_, ok := readCall(t, usage.Anthropic, body).WithUsage()
	require.False(t, ok, "others need not be asked")
}

// TestChangesTogether holds a body that is changed once in all its places against one that is changed one after the
// other.
func TestChangesTogether(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	both := 0
	for range 2000 {
		members := []string{`"messages":[]`, `"stream":true`}
		for range r.IntN(4) {
			members = append(members, pick(
				`"stream_options":null`, `"stream_options" : { }`, `"stream_options":{"x":1}`, `"stream_option\u0073":{}`,
				`"max_tokens":9000`, `"max_tokens":null`, `"max_completion_tokens": 8000`, `"max_completion_tokens":5`,
			))
		}
		r.Shuffle(len(members), reflect.Swapper(members))
		body := []byte(pick("", " \n") + "{" + pick("", " ") + strings.Join(members, pick(",", " ,\n")) + "}")
		change, ok := readCall(t, usage.Chat, string(body)).WithUsage()
		if !ok {
			continue // it has a member twice, and is not read
		}
		sets := allowanceOf(usage.Chat, "", nil, body).Set(2000)
		together := changed(body, append(sets, change)...)
		first := changed(body, change)
		then := changed(first, allowanceOf(usage.Chat, "", nil, first).Set(2000)...)
		require.Equal(t, string(then), string(together), "%s", body)
		require.True(t, json.Valid(together), "%s", together)
		if len(sets) > 0 {
			both++
		}
	}
	require.Greater(t, both, 1000)
}

// changed is a body with changes.
func changed(body []byte, changes ...usage.Change) []byte {
	return bytes.Join(usage.Pieces(body, changes), nil)
}

func TestBilling(t *testing.T) {
	for _, of := range []struct {
		api      usage.API
		free     bool
		want     usage.Bill
		statuses []int
	}{
		{usage.Chat, false, usage.Read, []int{200}},
		{usage.Chat, false, usage.Void, []int{302, 307, 401, 413, 429}},
		{usage.Chat, false, usage.Admitted, []int{300, 400, 408, 422, 500}},
		{usage.Anthropic, false, usage.Void, []int{400, 529}},
		{usage.Anthropic, false, usage.Admitted, []int{500}},
		{usage.Gemini, false, usage.Void, []int{400, 500}},
		{usage.Gemini, false, usage.Admitted, []int{503}},
		{usage.Chat, true, usage.Void, []int{400, 409, 422, 429, 500, 502, 503, 529}},
		{usage.Chat, true, usage.Admitted, []int{300, 408, 499, 504, 600}},
	} {
		for _, status := range of.statuses {
			require.Equal(t, of.want, usage.Billing(of.api, status, of.free), "%v %d", of.api, status)
		}
	}
}
