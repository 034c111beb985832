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
		client := &http.Client{Transport: &watchdoghttp.Meter{Base: based(func(*http.Request) (*http.Response, error) {
			most = append(most, wd.Usage()[0].Admitted)
			answer := `{"model":"m","usage":{"input_tokens":300,"output_tokens":10}}`
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: texts(answer)}, nil
		})}}
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

// TestMeterOutage protects a run from paying for what was not answered.
func TestMeterOutage(t *testing.T) {
	limits := watchdog.Spend{InputTokens: 100_000, OutputTokens: 100_000}
	most := []int64{int64(len(meteredCall)) + 1024 + 16, 10}
	// after is what is used after seven answers like that one.
	after := func(t *testing.T, url string, status int, meter *watchdoghttp.Meter) []int64 {
		t.Helper()
		meter.Base = based(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: texts(`{"error":{"type":"x"}}`)}, nil
		})
		wd := spending(t, limits)
		for range 7 {
			_, err := post(t, wd, &http.Client{Transport: meter}, url, meteredCall)
			require.NoError(t, err)
		}
		return used(t, wd)
	}
	t.Run("seven retries of an outage of a vendor's own host cost nothing", func(t *testing.T) {
		for _, host := range []string{"api.anthropic.com", "api.openai.com:443", "generativelanguage.googleapis.com"} {
			for _, status := range []int{400, 409, 422, 429, 500, 502, 503, 529} {
				require.Equal(t, []int64{0, 0}, after(t, "https://"+host, status, &watchdoghttp.Meter{}), "%s %d", host, status)
			}
		}
	})
	t.Run("an answer that can come while the model works on costs the most", func(t *testing.T) {
		for _, status := range []int{408, 499, 504} {
			require.Equal(t, []int64{7 * most[0], 7 * most[1]},
				after(t, "https://api.anthropic.com", status, &watchdoghttp.Meter{}), status)
		}
	})
	t.Run("another host is not known to bill nothing, unless it is declared", func(t *testing.T) {
		require.Equal(t, []int64{7 * most[0], 7 * most[1]}, after(t, "https://llm.example", 503, &watchdoghttp.Meter{}))
		free := &watchdoghttp.Meter{ErrorsFree: []string{"llm.example"}}
		require.Equal(t, []int64{0, 0}, after(t, "https://llm.example:8443", 503, free))
	})
	t.Run("a stream that is cut off costs the input that it said, and the most output", func(t *testing.T) {
		for _, host := range []string{"api.anthropic.com", "llm.example"} {
			wd := spending(t, limits)
			cut := io.NopCloser(io.MultiReader(strings.NewReader(meteredStart), iotest.ErrReader(io.ErrUnexpectedEOF)))
			meter := &watchdoghttp.Meter{Base: answering(200, http.Header{}, cut, nil)}
			_, err := post(t, wd, &http.Client{Transport: meter}, "https://"+host, meteredCall)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			want := map[string]int64{"api.anthropic.com": 25, "llm.example": most[0]}[host]
			require.Equal(t, []int64{want, most[1]}, used(t, wd))
		}
	})
	const failed = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n"
	for name, of := range map[string]struct {
		stream string
		used   []int64
	}{
		"an error in a stream costs what the stream said by then":   {meteredStart + meteredDelta + failed, []int64{25, 1}},
		"one before any usage costs the most, whatever the host is": {failed, most},
	} {
		t.Run(name, func(t *testing.T) {
			wd := spending(t, limits)
			meter := &watchdoghttp.Meter{Base: answering(200, http.Header{}, texts(of.stream), nil)}
			_, err := post(t, wd, &http.Client{Transport: meter}, "https://api.anthropic.com", meteredCall)
			require.NoError(t, err)
			require.Equal(t, of.used, used(t, wd))
		})
	}
}
