package watchdoghttp_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/watchdoghttp"
)

// newFilter returns the filter of a response of a type.
func newFilter(contentType string) func([]byte) bool {
	return watchdoghttp.EventStream(&http.Response{Header: http.Header{"Content-Type": {contentType}}})
}

const events, lines, document = "text/event-stream", "application/x-ndjson", "application/json"

// TestStreams runs the rows of the page of streams, whole and byte by byte.
func TestStreams(t *testing.T) {
	page, err := os.ReadFile("../docs/streams.md")
	require.NoError(t, err)
	rows := regexp.MustCompile("(?m)^\\| `([a-z/-]+)` \\| `(.*?)` \\| (yes|no) \\| .*\\|$").FindAllStringSubmatch(string(page), -1)
	require.Len(t, rows, strings.Count(string(page), "\n| `"))
	quote := strings.NewReplacer(`\n`, "\n", `\r`, "\r")
	for _, row := range rows {
		contentType, text, want := row[1], quote.Replace(row[2]), row[3] == "yes"
		t.Run(fmt.Sprintf("%s of %s is a sign: %v", contentType, row[2], want), func(t *testing.T) {
			filter := newFilter(contentType)
			if filter == nil {
				require.True(t, want)
				return
			}
			require.Equal(t, want, filter([]byte(text)))
			require.Equal(t, want, strings.Contains(fmt.Sprint(bytewise(contentType, text)), "true"))
		})
	}
}

// bytewise is of which bytes a filter says that they are signs of life.
func bytewise(contentType, text string) []bool {
	signs, filter := make([]bool, len(text)), newFilter(contentType)
	for i := range len(text) {
		signs[i] = filter([]byte{text[i]})
	}
	return signs
}

func TestEventStream(t *testing.T) {
	long := strings.Repeat("x", 1<<16)
	for _, c := range []struct {
		contentType, text string
		alive             bool
	}{
		// What has no end yet.
		{events, "", false},
		{events, "data: token", false},
		{events, "data: token\n", false},
		{events, "data: " + long, true},
		{events, "data: {\"a\":\"" + long, true},
		{events, "data: {\"type\":\"ping\",\"a\":\"" + long[:4000], false},
		{events, "data: {\"type\":\"ping\",\"a\":\"" + long, true},
		{events, "event: ping\ndata: " + long, false},
		{events, "event: ping" + long + "\ndata: x\n\n", true},
		{events, strings.Repeat(" ", 1<<16), true}, // a field of that name
		{events, "data:" + strings.Repeat(" ", 1<<16) + "\n\n", false},
		{events, ": " + long, false},
		{events, "id: " + long, false},
		{events, long, true},
		// What ends in parts.
		{events, "\ufeff: ping\r\r", false},
		{events, "\ufeffevent: ping\r\ndata: x\r\n\r\n", false},
		{events, "\ufeffdata: x\r\r", true},
		{events, "\ufeff\ufeff: ping\n\n", true},
		{events, "data: x\rid: 7\r\r", true},
		{events, "data: {\"type\":\"ping\"\n\n", false},
		{events, "data: {\"a\":1\n\n", true},
		{events, "data: {\"type\":\"ping\"} {\"a\":1}\n\n", true},
		{events, "event: ping\nevent: message\ndata: x\n\n", true},
		{events, "event: ping\nevent\ndata: x\n\n", true},
		{events, "data:{\"type\":\"ping\"}\n\n", false},
		{events, "data\n\n", false},
		{events, "data: {\"type\":1,\"x\":\"ping\"}\n\n", true},
		{events, "data: {\"x\":\"type\",\"y\":\"ping\"}\n\n", true},
		{events, "data: {\"type\\\"\":\"ping\"}\n\n", true},
		{events, "data: {\"\":[{\"type\":0}],\"type\":\"ping\"}\n\n", false},
		{events, "data: {\"type\":\"pings\"}\n\n", true},
		{events, "data: {\"type\":{\"type\":\"ping\"}}\n\n", true},
		// Values.
		{document, "", false},
		{document, " \t\r\n", false},
		{document, "{\"a\":\"", false},
		{document, "{\"a\":\"" + long, true},
		{document, "1", true},
		{document, "\" ", true},
		{document, "{\"type\":\"ping\"}\n{\"type\":\"ping\"}", false},
		{document, "{\"type\":\"ping\",\"a\":\"" + long, true},
		{document, "}", true},
		{lines, "{\"type\":\"ping\n", true},
		{lines, "{\"type\":\"ping\",\n{\"a\":1}\n", true},
		{lines, "{\"type\":\"ping\",\n{\"type\":\"ping\"}\n", false},
		{lines, "{\"a\":\"\\\"\n", true},
		{"application/json-seq", "\x1e{\"type\":\"ping\"}\n\x1e\n", false},
		{"application/json-seq", "\x1e{\"a\":\"ping\"}\n", true},
	} {
		t.Run(fmt.Sprintf("%s of %.60q is a sign: %v", c.contentType, c.text, c.alive), func(t *testing.T) {
			require.Equal(t, c.alive, newFilter(c.contentType)([]byte(c.text)))
		})
	}
	t.Run("whitespace in a text is content, and between what has come none", func(t *testing.T) {
		filter := newFilter(document)
		require.True(t, filter([]byte("[{\"text\":\"a")))
		require.True(t, filter([]byte("   ")))
		require.True(t, filter([]byte("\"}")))
		require.False(t, filter([]byte("\n\n\n")))
		require.True(t, filter([]byte(",")))
	})
	t.Run("malformed lines are over at their end", func(t *testing.T) {
		filter := newFilter(lines)
		require.True(t, filter([]byte("{\"a\":\"\n")))
		require.False(t, filter([]byte("{\"type\":\"ping\"}\n")))
	})
	for _, header := range []http.Header{
		nil,
		{"Content-Type": {"text/event-streams"}},
		{"Content-Type": {"application/jsonp"}},
		{"Content-Type": {"image/x+json"}},
		{"Content-Type": {"text/event-stream"}, "Content-Encoding": {"gzip"}},
		{"Content-Type": {"application/json"}, "Content-Encoding": {"br"}},
	} {
		t.Run(fmt.Sprintf("has nothing to say of %v", header), func(t *testing.T) {
			require.Nil(t, watchdoghttp.EventStream(&http.Response{Header: header}))
		})
	}
	for _, contentType := range []string{
		"Text/Event-Stream;charset=utf-8", " text/event-stream ; x", "Application/JSON; charset=utf-8",
		"application/stream+json", "application/jsonl", "application/x-jsonlines", "application/ndjson",
	} {
		t.Run("is for "+contentType, func(t *testing.T) {
			resp := &http.Response{Header: http.Header{"Content-Type": {contentType}, "Content-Encoding": {"identity"}}}
			require.NotNil(t, watchdoghttp.EventStream(resp))
		})
	}
	t.Run("allocates nothing per chunk", func(t *testing.T) {
		for contentType, text := range map[string]string{
			events: "id: 1\nevent: ping\ndata: x\n\ndata: {\"type\":\"ping\"}\n\ndata: token\n\n",
			lines:  "{\"type\":\"ping\"}\n{\"a\":\"" + long + "\"}\n\n",
		} {
			alive, chunk := newFilter(contentType), []byte(text)
			require.Zero(t, testing.AllocsPerRun(100, func() { alive(chunk) }))
		}
	})
}

// BenchmarkEventStream measures the filter on streams of several kinds, each in reads of 4 KiB.
func BenchmarkEventStream(b *testing.B) {
	for name, c := range map[string][2]string{
		"pings":    {events, "event: ping\ndata: {\"type\": \"ping\"}\n\n"},
		"comments": {events, ": OPENROUTER PROCESSING\n\n"},
		"tokens":   {events, "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n"},
		"typed":    {events, "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"Hi\"}\n\n"},
		"one line": {events, "data: " + strings.Repeat("x", 1<<20)},
		"objects":  {lines, "{\"model\":\"gemma3\",\"created_at\":\"2025-10-26T17:15:24.097767Z\",\"response\":\"That\",\"done\":false}\n"},
	} {
		b.Run(name, func(b *testing.B) {
			text := []byte(strings.Repeat(c[1], 1+(1<<20)/len(c[1])))
			filter := newFilter(c[0])
			b.SetBytes(4096)
			b.ReportAllocs()
			at := 0
			for b.Loop() {
				if at+4096 > len(text) {
					at = 0
				}
				filter(text[at : at+4096])
				at += 4096
			}
		})
	}
}

// FuzzEventStream holds the filter against a reader of whole events, however a stream is cut into chunks.
func FuzzEventStream(f *testing.F) {
	for seed := range uint64(3000) {
		f.Add(randomStream(rand.New(rand.NewPCG(seed, 11))), seed)
	}
	for _, text := range []string{
		"event: ping\nevent\ndata: x\n\n", "event: ping\nevent: message\ndata: x\n\n", "event: ping\n\ndata: token\n\n",
		"\ufeff\ufeff: ping\n", "\n\ufeff: ping\n", "\xef\xbb: ping\n", "\xef\n", "\ufeffevent: ping\ndata: x\n\n",
		"event: ping\revent: ping\rid: 7\rother: x\r\r", strings.Repeat("x", 1<<16) + "\nevent: ping",
		"data: {\"type\":\"ping\"}\n\n", "data: " + strings.Repeat("x", 300) + "\nevent: ping\ndata: x\n\n",
	} {
		f.Add(text, uint64(1))
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 5))
		for _, contentType := range []string{events, lines, document} {
			checkSplit(t, contentType, text, rng)
		}
		checkEvents(t, text)
		checkLines(t, text)
	})
}

// streamWords are what random streams are made of.
var streamWords = []string{
	"\n", "\r", "\r\n", "\n\n", ":", " ", "event", "event:", "event: ping", "event:ping", "ping", "data", "data: x",
	"id", "id: 1", "retry", "retry:1", "\ufeff", "\xef", "e", "event: pin", "event: pings", "event: Ping", "event:  ping",
	": ping", "other", "id is no ID", "data: token\n\n", strings.Repeat("x", 600), "data: {\"type\":\"ping\"}\n\n",
	"{\"type\":\"ping\"}\n", "data: {", "\"type\":", "\"heartbeat\"", "{", "}", "[", "]", ",", "\"", "\\", "\"a\":1", "data:",
	"data: {\"a\":{\"type\":\"ping\"}}\n\n", "event: keep-alive\n", "event: keepalive\n", "event: heartbeat\n", "\x1e",
}

func randomStream(rng *rand.Rand) string {
	var text strings.Builder
	for range rng.IntN(16) {
		text.WriteString(streamWords[rng.IntN(len(streamWords))])
	}
	return text.String()
}

// checkSplit compares chunks of random lengths, and the whole, with single bytes.
func checkSplit(t *testing.T, contentType, text string, rng *rand.Rand) {
	t.Helper()
	signs := bytewise(contentType, text)
	among := func(from, to int) bool { return strings.Contains(fmt.Sprint(signs[from:to]), "true") }
	require.Equal(t, among(0, len(text)), newFilter(contentType)([]byte(text)), "%q", text)
	chunks := newFilter(contentType)
	for from := 0; from < len(text); {
		to := from + 1 + rng.IntN(len(text)-from)
		require.Equal(t, among(from, to), chunks([]byte(text[from:to])), "%s: %q in %q", contentType, text[from:to], text)
		from = to
	}
}

// checkEvents compares the signs of each event with what a reader of the whole says of it.
func checkEvents(t *testing.T, text string) {
	t.Helper()
	signs := bytewise(events, text)
	for _, e := range slowEvents(text) {
		if e.unclear {
			continue
		}
		among := strings.Contains(fmt.Sprint(signs[e.from:e.to]), "true")
		require.Equal(t, e.alive, among, "%q in %q", text[e.from:e.to], text)
	}
}

// A judgedEvent is an event with its place in the text.
type judgedEvent struct {
	from, to int
	alive    bool
	unclear  bool // it has data that this reader does not judge
}

// slowEvents judges the events of a text as the HTML standard parses them. It leaves out a last one without an end.
func slowEvents(text string) (all []judgedEvent) {
	var data []string
	name, other, from, at := "", false, 0, 0
	for {
		n := strings.IndexAny(text[at:], "\r\n")
		if n < 0 {
			return all
		}
		line, end := text[at:at+n], at+n+1
		if strings.HasPrefix(text[at+n:], "\r\n") {
			end++
		}
		if at == 0 {
			line = strings.TrimPrefix(line, "\ufeff")
		}
		at = end
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			e := judgedEvent{from: from, to: end}
			content, known := slowContent(strings.Join(data, "\n"))
			e.alive, e.unclear = other || content && !slowKeepAlive(name), !known
			all = append(all, e)
			data, name, other, from = nil, "", false, end
		case field == "event":
			name = value
		case field == "data":
			data = append(data, value)
		case !slices.Contains([]string{"", "id", "retry"}, field):
			other = other || !slowKeepAlive(name)
		}
	}
}

func slowKeepAlive(name string) bool {
	return name == "ping" || name == "keepalive" || name == "keep-alive" || name == "heartbeat"
}

// slowContent reports whether data is content, and whether that is known: with what is long or malformed it is not.
func slowContent(data string) (content, known bool) {
	if len(data) > 256 || strings.Contains(data, `\`) {
		return false, false
	}
	trimmed := strings.Trim(data, " \t\r\n\x1e")
	if !strings.HasPrefix(trimmed, "{") {
		return trimmed != "", true
	}
	values := json.NewDecoder(strings.NewReader(trimmed))
	for {
		var value json.RawMessage
		err := values.Decode(&value)
		if err != nil {
			return content, errors.Is(err, io.EOF)
		}
		content = content || !slowTyped(value)
	}
}

// slowTyped reports whether a value is an object whose first type that is a text only keeps a connection open.
func slowTyped(value json.RawMessage) bool {
	members := json.NewDecoder(bytes.NewReader(value))
	if begin, _ := members.Token(); begin != json.Delim('{') {
		return false
	}
	for members.More() {
		name, _ := members.Token()
		var member any
		if members.Decode(&member) != nil {
			return false
		}
		if text, is := member.(string); is && name == "type" {
			return slowKeepAlive(text)
		}
	}
	return false
}

// checkLines compares the signs of each line of values with what a reader of the whole says of it.
func checkLines(t *testing.T, text string) {
	t.Helper()
	signs, from := bytewise(lines, text), 0
	for line := range strings.Lines(text) {
		to := from + len(line)
		content, known := slowContent(line)
		if known && strings.HasSuffix(line, "\n") {
			require.Equal(t, content, strings.Contains(fmt.Sprint(signs[from:to]), "true"), "%q in %q", line, text)
		}
		from = to
	}
}
