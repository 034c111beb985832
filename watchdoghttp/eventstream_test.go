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
	for _, c := range []struct {
		text  string
		alive bool
	}{
		{"", false},
		{"\n\r\n\r", false},
		{":\n", false},
		{": ping\n\n", false},
		{":data: comment", false},
		{"event: ping\ndata: {\"type\": \"ping\"}\n\n", false},
		{"event:ping\r\ndata\r\n\r\n", false},
		{"event: ping\revent: ping\rid: 7\rother: x\r\r", false},
		{"id: 7\nretry: 10\nevent: ping\ndata: x\n\n: more\n", false},
		{"id\nretry\nid:\nretry:10\n", false},
		{"\ufeff: ping\n", false},
		{"\ufeffevent: ping\ndata: x\n\n", false},
		{"event: pin", false}, // it can become a ping
		{"d", true},
		{"data: token\n\n", true},
		{"data: token without an end", true},
		{": ping\n\ndata: token\n\n", true},
		{"event: ping\n\ndata: token\n\n", true},             // the ping has ended
		{"event: ping\nevent: message\ndata: x\n\n", true},   // the last type counts
		{"event: ping\nevent\ndata: x\n\n", true},            // and none is a type too
		{"event: pings\n", true},                             // a type of another name
		{"event: pin\n", true},                               //
		{"event:  ping\n", true},                             // only one space is no part of it
		{"event: Ping\n", true},                              //
		{"event\n", true},                                    //
		{"id is no ID\n", true},                              //
		{"\ufeff\ufeff: ping\n", true},                       // only the first is a mark
		{"\xef\xbb: ping\n", true},                           //
		{"\xef\n", true},                                     //
		{"\n\ufeff: ping\n", true},                           //
		{"event: message_stop\ndata: {}\n\n", true},          //
		{"{\"error\": \"no events at all\"}", true},          //
		{strings.Repeat("x", 1<<16) + "\nevent: ping", true}, //
	} {
		t.Run(fmt.Sprintf("alive is %v of %.40q", c.alive, c.text), func(t *testing.T) {
			require.Equal(t, c.alive, newEvents()([]byte(c.text)))
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

func TestEventStreamSplit(t *testing.T) {
	t.Run("how a stream is cut into chunks changes no verdict", func(t *testing.T) {
		for seed := range uint64(3000) {
			rng := rand.New(rand.NewPCG(seed, 11))
			checkSplit(t, randomEvents(rng), rng)
		}
	})
}

func FuzzEventStream(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(randomEvents(rand.New(rand.NewPCG(seed, 3))), seed)
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		checkSplit(t, text, rand.New(rand.NewPCG(seed, 5)))
	})
}

// eventWords are what random streams are made of.
var eventWords = []string{
	"\n", "\r", "\r\n", "\n\n", ":", " ", "event", "event:", "event: ping", "event:ping", "ping", "data", "data: x",
	"id", "id: 1", "retry", "retry:1", "\ufeff", "\xef", "e", "event: pin", ": ping", "other",
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
