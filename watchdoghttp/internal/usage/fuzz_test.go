package usage_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/watchdoghttp/internal/usage"
)

// FuzzReader protects readers from an answer that depends on how a body was cut: byte by byte nothing is skipped ahead.
func FuzzReader(f *testing.F) {
	for _, s := range samples {
		f.Add(uint8(s.api), []byte(s.body), uint16(len(s.body)/2))
	}
	for _, body := range []string{
		"data: {\"usage\":\ndata: {\"prompt_tokens\":1}}\n\n", "data: {\"usage\"\ndata: :{\"prompt_tokens\":1}}\n\n",
		"data: {\"us\\u0061ge\":{\"prompt_tokens\":1}}\n\n", "\xef\xbb\xbfdata:{\"usage\":{\"prompt_tokens\":1}}\r\r",
		"data: {\"usage\":\nevent: x\ndata: {\"prompt_tokens\":1}}\n\n", " data: {\"usage\":{\"prompt_tokens\":1}}\n\n",
		"data: {}\n\ndata: {\"usage\":\n: x\r\ndata: {\"prompt_tokens\":1}}\r\n\n\n\ndata: 1",
		"data: {\"usage\":\n\r\r\ndata: {\"prompt_tokens\":1}}\n\r\r\n", "data: {\"usage\": {\n\r\r\ndata: \"prompt_tokens\":1}}\n\n",
		"data: {\"choices\":[{\"finish_reason\":\"length\"}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\n",
		`{"usage":{"server_tool_use":{"a":0,"b":1,"web_search_requests":2}}}`,
		strings.Repeat(chatChunk, 9) + "data: {\"usage\" : {\"prompt_tokens\":1}}\n\n",
		strings.Repeat("data: {\"a\":{}}\r\n\r\n", 9) + "data: {\"us\\u0061ge\":{\"prompt_tokens\":1}}\n\n",
	} {
		f.Add(uint8(usage.Chat), []byte(body), uint16(len(body)/2))
	}
	f.Fuzz(func(t *testing.T, api uint8, body []byte, cut uint16) {
		from := usage.Anthropic + usage.API(api%4)
		at := min(int(cut), len(body))
		want := read(from, "", singly(body)...)
		require.Equal(t, want, read(from, "", body))
		require.Equal(t, want, read(from, "", body[:at], body[at:]))
		counts := want.Usage
		for _, n := range []int64{counts.Input, counts.TokensIn(), counts.Output, counts.Reasoning} {
			require.GreaterOrEqual(t, n, int64(0))
		}
		read(from, "gzip", body[:at], body[at:]) // it must not panic
	})
}
