package watchdoghttp_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/watchdoghttp"
)

// newEvents returns the filter of a response that is a stream of events.
func newEvents() func([]byte) bool {
	return watchdoghttp.EventStream(&http.Response{Header: http.Header{"Content-Type": {"text/event-stream"}}})
}

func TestEventStream(t *testing.T) {
	// What a last line without an end is: checkSplit judges the lines that have one.
	for text, alive := range map[string]bool{
		"": false, ":": false, ": ping": false, "id: 7": false, "retry": false, "event: ping": false, "\ufeff: ping": false,
		"event: pin":           false, // it can become a ping
		"event: ping\ndata: x": false, "d": true, "data: token without an end": true, "event: pings": true, "event:  ": true,
		"id is no ID": true, "\xef\xbb:": true, "{\"error\": \"no events at all\"}": true, strings.Repeat("x", 1<<16): true,
	} {
		t.Run(fmt.Sprintf("alive is %v of %.40q", alive, text), func(t *testing.T) {
			require.Equal(t, alive, newEvents()([]byte(text)))
		})
	}
	for _, header := range []http.Header{
		nil,
		{"Content-Type": {"application/json"}},
		{"Content-Type": {"text/event-streams"}},
		{"Content-Type": {"text/event-stream"}, "Content-Encoding": {"gzip"}},
	} {
		t.Run(fmt.Sprintf("has nothing to say of %v", header), func(t *testing.T) {
			require.Nil(t, watchdoghttp.EventStream(&http.Response{Header: header}))
		})
	}
	for _, contentType := range []string{"Text/Event-Stream;charset=utf-8", " text/event-stream ; x"} {
		t.Run("is for "+contentType, func(t *testing.T) {
			resp := &http.Response{Header: http.Header{"Content-Type": {contentType}, "Content-Encoding": {"identity"}}}
			require.NotNil(t, watchdoghttp.EventStream(resp))
		})
	}
	t.Run("allocates nothing per chunk", func(t *testing.T) {
		alive, chunk := newEvents(), []byte("id: 1\nevent: ping\ndata: x\n\ndata: token\n\n")
		require.Zero(t, testing.AllocsPerRun(1000, func() { alive(chunk) }))
	})
}

// FuzzEventStream holds the filter against a parser of whole lines, however a stream is cut into chunks.
func FuzzEventStream(f *testing.F) {
	for seed := range uint64(3000) {
		f.Add(randomEvents(rand.New(rand.NewPCG(seed, 11))), seed)
	}
	for _, text := range []string{
		"event: ping\nevent\ndata: x\n\n", "event: ping\nevent: message\ndata: x\n\n", "event: ping\n\ndata: token\n\n",
		"\ufeff\ufeff: ping\n", "\n\ufeff: ping\n", "\xef\xbb: ping\n", "\xef\n", "\ufeffevent: ping\ndata: x\n\n",
		"event: ping\revent: ping\rid: 7\rother: x\r\r", strings.Repeat("x", 1<<16) + "\nevent: ping",
	} {
		f.Add(text, uint64(1))
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		checkSplit(t, text, rand.New(rand.NewPCG(seed, 5)))
	})
}

// eventWords are what random streams are made of.
var eventWords = []string{
	"\n", "\r", "\r\n", "\n\n", ":", " ", "event", "event:", "event: ping", "event:ping", "ping", "data", "data: x",
	"id", "id: 1", "retry", "retry:1", "\ufeff", "\xef", "e", "event: pin", "event: pings", "event: Ping", "event:  ping",
	": ping", "other", "id is no ID", "data: token\n\n", strings.Repeat("x", 600),
}

func randomEvents(rng *rand.Rand) string {
	var text strings.Builder
	for range rng.IntN(12) {
		text.WriteString(eventWords[rng.IntN(len(eventWords))])
	}
	return text.String()
}

// checkSplit compares chunks of random lengths, and the whole, with single bytes; and these, line by line, with a
// parser that has all of the text before it.
func checkSplit(t *testing.T, text string, rng *rand.Rand) {
	t.Helper()
	bytewise, single := make([]bool, len(text)), newEvents()
	for i := range len(text) {
		bytewise[i] = single([]byte{text[i]})
	}
	among := func(from, to int) bool { return strings.Contains(fmt.Sprint(bytewise[from:to]), "true") }
	require.Equal(t, among(0, len(text)), newEvents()([]byte(text)), "%q", text)
	chunks := newEvents()
	for from := 0; from < len(text); {
		to := from + 1 + rng.IntN(len(text)-from)
		require.Equal(t, among(from, to), chunks([]byte(text[from:to])), "%q in %q", text[from:to], text)
		from = to
	}
	from := 0
	for _, line := range slowEvents(text) {
		require.Equal(t, line.alive, among(from, line.end), "%q in %q", text[from:line.end], text)
		from = line.end
	}
}

// A judgedLine is a line of a stream of events, with its end in the text.
type judgedLine struct {
	end   int
	alive bool
}

// slowEvents judges the lines of a text as the HTML standard parses them. It leaves out a last one without an end.
func slowEvents(text string) (lines []judgedLine) {
	ping, at := false, 0
	for {
		n := strings.IndexAny(text[at:], "\r\n")
		if n < 0 {
			return lines
		}
		line, end := text[at:at+n], at+n+1
		if strings.HasPrefix(text[at+n:], "\r\n") {
			end++
		}
		if at == 0 {
			line = strings.TrimPrefix(line, "\ufeff")
		}
		field, value, _ := strings.Cut(line, ":")
		switch {
		case line == "":
			ping = false
		case field == "event":
			ping = strings.TrimPrefix(value, " ") == "ping"
		}
		quiet := line == "" || field == "" || field == "id" || field == "retry" || ping
		lines = append(lines, judgedLine{end: end, alive: !quiet})
		at = end
	}
}
