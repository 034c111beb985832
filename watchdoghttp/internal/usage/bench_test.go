package usage_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/seed62658d38/watchdog/watchdoghttp/internal/usage"
)

// BenchmarkFeed reads a stream in chunks of 4 KiB, cut anywhere: of short deltas as models send them, of long ones, and
// a long plain answer.
func BenchmarkFeed(b *testing.B) {
	const chunk = 4 << 10
	escaped := strings.Repeat(`line of text\nwith \"quotes\" `, 200)
	for _, body := range []struct {
		name string
		api  usage.API
		text string
	}{
		{"Anthropic,tokens", usage.Anthropic, strings.Repeat(anthropicDelta, 2000)},
		{"Chat,tokens", usage.Chat, strings.Repeat(chatChunk, 2000)},
		{"Gemini,chunks", usage.Gemini, strings.Repeat("data: "+geminiChunk(5)+"\r\n\r\n", 2000)},
		{"Anthropic,4KiB", usage.Anthropic, strings.Repeat("data: {\"delta\":\""+strings.Repeat("x", chunk-20)+"\"}\n\n", 200)},
		{"Anthropic,plain", usage.Anthropic, `{"content":[{"text":"` + strings.Repeat(escaped, 100) + `"}`},
		{"Anthropic,arrays", usage.Anthropic, `{"content":` + strings.Repeat("[1,2,", 200000)},
	} {
		b.Run("of="+body.name, func(b *testing.B) {
			text := []byte(body.text)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				r := usage.NewReader(body.api, "")
				for rest := text; len(rest) > 0; rest = rest[min(chunk, len(rest)):] {
					r.Feed(rest[:min(chunk, len(rest))])
				}
				r.End(true)
			}
		})
	}
}

// BenchmarkFeedWhole reads 4 MiB at once: the time of each part must not depend on what comes after it.
func BenchmarkFeedWhole(b *testing.B) {
	for name, part := range map[string]string{
		"escapes": `{"content":"` + strings.Repeat(`\n`, 1<<20) + `"`, "returns": strings.Repeat("data: {}\r", 1<<19),
		"braces": strings.Repeat(`data: {"a":{"b":{}}}`+"\n\n", 1<<18), "unended": "data: " + strings.Repeat("{", 1<<22),
	} {
		b.Run("of="+name, func(b *testing.B) {
			body := bytes.Repeat([]byte(part), 1)
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				read(usage.Anthropic, "", body)
			}
		})
	}
}
