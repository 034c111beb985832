package notify_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/golden"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/locked"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/notify"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secrets")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestConfig(t *testing.T) {
	long := base64.StdEncoding.EncodeToString(make([]byte, 65))
	for want, set := range map[string]func(c *notify.Config){
		"URL is empty":                            func(c *notify.Config) { c.URL = "" },
		"URL cannot be read":                      func(c *notify.Config) { c.URL = "https://canary\x7f.example.com/" },
		"URL has a user or a password":            func(c *notify.Config) { c.URL = "https://canary:canary@hooks.example.com/" },
		"URL has no host":                         func(c *notify.Config) { c.URL = "https:///canary" },
		"URL is http to hooks.example.com":        func(c *notify.Config) { c.URL = "http://hooks.example.com/canary" },
		"URL is http to 10.0.0.1":                 func(c *notify.Config) { c.URL = "http://10.0.0.1/canary" },
		`URL has the scheme "ftp"`:                func(c *notify.Config) { c.URL = "ftp://hooks.example.com/canary" },
		"there is no secret":                      func(c *notify.Config) { c.Secrets = nil },
		"secret 2 of 2 is no base64":              func(c *notify.Config) { c.Secrets = append(c.Secrets, "canary!") },
		"secret 1 of 1 has 5 bytes, and 24 to 64": func(c *notify.Config) { c.Secrets = []string{"whsec_Y2FuYXI="} },
		"secret 1 of 1 has 65 bytes":              func(c *notify.Config) { c.Secrets = []string{long} },
		"read SecretFile: open /none":             func(c *notify.Config) { c.SecretFile = "/none" },
		"has no line with a secret":               func(c *notify.Config) { c.SecretFile = file(t, "\n \n") },
		"secret 3 of 3 is no base64":              func(c *notify.Config) { c.SecretFile = file(t, otherSecret+"\n\ncanary!\n") },
		"KeepFor is 1h0m0s; use at least 24h0m0s": func(c *notify.Config) { c.KeepFor = time.Hour },
		"KeepFor is -1h0m0s":                      func(c *notify.Config) { c.KeepFor = -time.Hour },
		"Poll is -1s":                             func(c *notify.Config) { c.Poll = -time.Second },
		"Timeout is -1s":                          func(c *notify.Config) { c.Timeout = -time.Second },
		"Timeout is 2562047h47m16":                func(c *notify.Config) { c.Timeout = watchdog.NoLimit },
		"Parallel is -1":                          func(c *notify.Config) { c.Parallel = -1 },
		"Parallel is 101":                         func(c *notify.Config) { c.Parallel = 101 },
	} {
		t.Run(want, func(t *testing.T) {
			cfg := notify.Config{URL: hook, Secrets: []string{secret}}
			set(&cfg)
			_, err := notify.New(newBox(), newBox(), cfg)
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			require.ErrorContains(t, err, want)
			require.NotContains(t, err.Error(), "canary")
			require.NotContains(t, err.Error(), strings.TrimPrefix(otherSecret, "whsec_"))
		})
	}
	t.Run("several flaws are told at once", func(t *testing.T) {
		_, err := notify.New(newBox(), newBox(), notify.Config{Poll: -1})
		require.ErrorContains(t, err, "URL is empty")
		require.ErrorContains(t, err, "there is no secret")
		require.ErrorContains(t, err, "Poll is -1ns")
		err = notify.Config{Poll: -1}.Validate()
		require.ErrorIs(t, err, watchdog.ErrInvalid)
		require.ErrorContains(t, err, "URL is empty")
		require.ErrorContains(t, err, "Poll is -1ns")
		require.NotContains(t, err.Error(), "secret")
		require.NoError(t, notify.Config{URL: hook}.Validate())
	})
	t.Run("there is no store", func(t *testing.T) {
		_, err := notify.New(nil, newBox(), notify.Config{URL: hook, Secrets: []string{secret}})
		require.ErrorIs(t, err, watchdog.ErrInvalid)
		_, err = notify.New(newBox(), nil, notify.Config{URL: hook, Secrets: []string{secret}})
		require.ErrorIs(t, err, watchdog.ErrInvalid)
	})
	for _, url := range []string{"http://localhost:8080/x", "http://127.0.0.1/", "http://[::1]:9/", "https://10.0.0.1/#x"} {
		t.Run(url+" can be used", func(t *testing.T) {
			s, err := notify.New(newBox(), newBox(), notify.Config{URL: url, SecretFile: file(t, secret+"\n"+otherSecret)})
			require.NoError(t, err)
			require.NotEmpty(t, s.Host())
		})
	}
}

// specified is the example of the Standard Webhooks libraries, signed at 1614265330.
func specified() (header http.Header, body []byte) {
	header = http.Header{}
	header.Set("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek")
	header.Set("webhook-timestamp", "1614265330")
	header.Set("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
	return header, []byte(`{"test": 2432232314}`)
}

func TestVerify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Unix(1614265330, 0)))
		header, body := specified()
		id, err := notify.Verify(header, body, secret)
		require.NoError(t, err, "the example of the specification's libraries")
		require.Equal(t, "msg_p5jXN8AQM9LWM0D4loKWxJek", id)
		_, err = notify.Verify(header, body, otherSecret, strings.TrimPrefix(secret, "whsec_"))
		require.NoError(t, err, "one of several, without its prefix")

		for name, change := range map[string]func(h http.Header, body *[]byte){
			"another body":  func(_ http.Header, body *[]byte) { *body = append(*body, ' ') },
			"another ID":    func(h http.Header, _ *[]byte) { h.Set("webhook-id", "msg_other") },
			"no ID":         func(h http.Header, _ *[]byte) { h.Del("webhook-id") },
			"another time":  func(h http.Header, _ *[]byte) { h.Set("webhook-timestamp", "1614265331") },
			"no time":       func(h http.Header, _ *[]byte) { h.Set("webhook-timestamp", "now") },
			"no signature":  func(h http.Header, _ *[]byte) { h.Del("webhook-signature") },
			"a shorter one": func(h http.Header, _ *[]byte) { h.Set("webhook-signature", "v1,g0hM") },
			"no base64":     func(h http.Header, _ *[]byte) { h.Set("webhook-signature", "v1,*") },
			"an empty one":  func(h http.Header, _ *[]byte) { h.Set("webhook-signature", "v1,") },
			"another version": func(h http.Header, _ *[]byte) {
				h.Set("webhook-signature", strings.Replace(h.Get("webhook-signature"), "v1", "v1a", 1))
			},
			"the end of a time": func(h http.Header, _ *[]byte) { h.Set("webhook-timestamp", "9223372036854775807") },
		} {
			header, body := specified()
			change(header, &body)
			_, err := notify.Verify(header, body, secret)
			require.ErrorIs(t, err, notify.ErrUnverified, name)
		}
		_, err = notify.Verify(header, body, otherSecret)
		require.ErrorIs(t, err, notify.ErrUnverified)
		for _, bad := range []string{"canary!", "whsec_", "whsec_Y2FuYXJ5", ""} {
			_, err = notify.Verify(header, body, bad)
			require.Error(t, err)
			require.NotErrorIs(t, err, notify.ErrUnverified)
			require.NotContains(t, err.Error(), "canary")
		}
		time.Sleep(5 * time.Minute)
		_, err = notify.Verify(header, body, secret)
		require.NoError(t, err, "at the limit")
		time.Sleep(time.Second)
		_, err = notify.Verify(header, body, secret)
		require.ErrorIs(t, err, notify.ErrUnverified, "sent again by somebody else")
	})
}

// FuzzVerify protects receivers from a request that is taken though nothing signed it, and from a panic.
func FuzzVerify(f *testing.F) {
	header, body := specified()
	f.Add(header.Get("webhook-id"), header.Get("webhook-timestamp"), header.Get("webhook-signature"), body)
	f.Add("", "", "v1,", []byte(nil))
	f.Add("a", "-9223372036854775808", "v1,AAAA v1a, v1,", []byte("{}"))
	f.Fuzz(func(t *testing.T, id, timestamp, signature string, body []byte) {
		header := http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {timestamp}, "Webhook-Signature": {signature}}
		if _, err := notify.Verify(header, body, otherSecret); err == nil {
			t.Fatal("a signature was guessed")
		}
	})
}

// stored is an event of testdata/events.
func stored(t *testing.T, name string) (e watchdog.Event) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "testdata", "events", name+".json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &e))
	return e
}

func countOf(text, part string) int { return strings.Count(text, part) }

// TestRequest compares whole requests with files: what receivers rely on.
func TestRequest(t *testing.T) {
	for _, name := range []string{
		"cancel", "cancel_cost", "cancel_hold", "cancel_host", "cancel_host_lost", "cancel_idle_timeout", "cancel_layer",
		"cancel_no_output", "cancel_paused", "cancel_tool", "complete", "complete_command",
	} {
		bubble(t, name, func(t *testing.T) {
			b := newBox()
			b.put(t, stored(t, name))
			compare(t, name, request(t, named{box: b}))
		})
	}
	bubble(t, "alert", func(t *testing.T) {
		b := newBox()
		notify.Alert(b, 90*time.Minute, nil)(t.Context(), 12)
		compare(t, "alert", request(t, named{b, "PHRGBGRHGTPD37RD4PZOWPTMQO"}))
	})
	bubble(t, "of the host", func(t *testing.T) {
		b := newBox()
		require.NoError(t, b.PutNotices(t.Context(), session.Notice{
			ID: "e-1", AggregateType: "order", AggregateID: "o-7", Type: "order.lost",
		}))
		compare(t, "host", request(t, named{b, "a.b\r\nwebhook-id: c"}))
	})
	bubble(t, "an event that is there no more", func(t *testing.T) {
		b := newBox()
		e := stored(t, "cancel")
		require.NoError(t, b.PutNotices(t.Context(), session.Notice{
			ID: e.ID, AggregateType: e.AggregateType, AggregateID: e.AggregateID, Type: e.Type,
		}))
		compare(t, "lost", request(t, named{box: b}))
	})
}

// A named outbox has one notice, whose ID is one that another writer stored, or that was drawn once.
type named struct {
	*box
	id string
}

func (n named) ClaimNotices(ctx context.Context, most int, lasts time.Duration) ([]session.Notice, error) {
	claimed, err := n.box.ClaimNotices(ctx, most, lasts)
	claimed[0].ID = cmp.Or(n.id, claimed[0].ID)
	return claimed, err
}

// request returns what a receiver gets.
func request(t *testing.T, n named) string {
	t.Helper()
	r := &receiver{}
	s, err := notify.New(n, n.box, notify.Config{
		URL: hook, Secrets: []string{secret}, Transport: r, Completes: true, Layers: true,
	})
	require.NoError(t, err)
	deliver(t, s)
	require.Len(t, r.all(), 1)
	require.NoError(t, r.all()[0].err)
	var text strings.Builder
	header := r.all()[0].header
	for _, name := range slices.Sorted(maps.Keys(header)) {
		fmt.Fprintf(&text, "%s: %s\n", name, strings.Join(header[name], "|"))
	}
	return text.String() + "\n" + r.all()[0].body + "\n"
}

func compare(t *testing.T, name, text string) {
	t.Helper()
	golden.Compare(t, filepath.Join("testdata", name+".golden"), text)
}

// TestNoContent plants a canary in every text of a payload that a host can choose, but for names.
func TestNoContent(t *testing.T) {
	bubble(t, "nothing that a run noted, called or said is told", func(t *testing.T) {
		b, r, log := newBox(), &receiver{}, &locked.Buffer{}
		const payload = `{"reason":%q,"session_started_at":"2026-05-01T12:00:00.000000Z","fired_at":"2026-05-01T16:00:00.000000Z",` +
			`"elapsed_seconds":1,"configured_budget_seconds":1,"hold":"canary","note":"canary","attempt":2,"author":"canary",` +
			`"last_event_at":"2026-05-01T16:00:00.000000Z","window":"canary","more":"canary","spend":{"limit":"canary",` +
			`"tool":"canary","scope":"canary","currency":"canary","pattern":"canary","used":1,"allowed":2}}`
		for i, reason := range []string{"tool_calls_exceeded", "Canary text", "canary " + strings.Repeat("a", 200), ""} {
			b.put(t, watchdog.Event{
				ID: fmt.Sprintf("id-%d", i), AggregateType: watchdog.AggregateType, AggregateID: fmt.Sprintf("run-%d", i),
				Type: watchdog.EventCancel, Timestamp: time.Now(), Payload: fmt.Appendf(nil, payload, reason),
			})
		}
		b.put(t, watchdog.Event{
			ID: "foreign", AggregateType: watchdog.AggregateType, AggregateID: "run", Type: watchdog.EventCancel,
			Timestamp: time.Now(), Payload: []byte(`{"reason":{"canary":1},"note":"canary"}`),
		})
		b.stop(t, "noted")
		s := newSender(t, b, r, func(c *notify.Config) { c.Logger = logTo(log) })
		r.answersWith(500)
		_, err := s.Deliver(t.Context())
		require.Error(t, err)
		r.answersWith(0)
		end := run(t, s)
		time.Sleep(time.Minute)
		end()
		assert.Len(t, r.ids(), 6)
		assert.NotContains(t, err.Error()+log.String(), "canary")
		for _, g := range r.all() {
			assert.NotContains(t, strings.ToLower(g.body+fmt.Sprint(g.header)), "canary")
		}
	})
}

func TestCorrected(t *testing.T) {
	bubble(t, "a stop that was wrong is told as one", func(t *testing.T) {
		b, r := newBox(), &receiver{}
		id, other := b.put(t, stored(t, "cancel")), stored(t, "cancel")
		other.ID = "c0ffee00-2565-5c3e-b33b-1add2a8e1405"
		b.put(t, other)
		require.NoError(t, b.Append(t.Context(), watchdog.Event{
			ID:            record.EventID("s-1", "2026-05-01T12:00:00.000000Z", watchdog.EventCorrection, id),
			AggregateType: watchdog.AggregateType, AggregateID: "s-1", Type: watchdog.EventCorrection,
			Timestamp: time.Now(), Payload: fmt.Appendf(nil, `{"cancel_id":%q}`, id),
		}))
		deliver(t, newSender(t, b, r))
		require.Len(t, r.ids(), 2)
		for _, g := range r.all() {
			assert.Equal(t, g.id == id, strings.Contains(g.body, `"corrected":true`))
		}
	})
}

// A selecting is a store that counts the events that it returns.
type selecting struct {
	*box
	events int
}

func (s *selecting) Select(ctx context.Context, by watchdog.Selection) ([]watchdog.Event, error) {
	events, err := s.box.Select(ctx, by)
	s.events += len(events)
	return events, err
}

// TestLongRun protects that a notice costs no more than what it says, however many events its run has, and that a
// correction is found as a run records it: of a session, and of a layer, whose windows have names.
func TestLongRun(t *testing.T) {
	for _, layer := range []bool{false, true} {
		bubble(t, fmt.Sprintf("of a layer: %v", layer), func(t *testing.T) {
			b, r := &selecting{box: newBox()}, &receiver{}
			budget := watchdog.Budget{WallClock: time.Hour}
			if layer {
				budget.WallClock = 3 * time.Hour
			}
			wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
				Store: b.box, Budget: budget, Logger: quiet,
			})
			require.NoError(t, err)
			defer wd.Close()
			for range 50 {
				require.NoError(t, wd.Extend(time.Microsecond))
			}
			if layer {
				wd, err = wd.Layer("build", watchdog.Budget{WallClock: time.Minute})
				require.NoError(t, err)
			}
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			require.True(t, handle.Of(wd.Context()).RecordFinished())
			deliver(t, newSender(t, b, r, func(c *notify.Config) { c.Layers = true }))
			require.Len(t, r.all(), 1)
			require.Contains(t, r.all()[0].body, `"corrected":true`)
			require.Equal(t, 2, b.events, "the cancel and its correction")
		})
	}
}

func TestAlert(t *testing.T) {
	bubble(t, "two alerts of one count are two notices, with the count and the time only", func(t *testing.T) {
		b, r := newBox(), &receiver{}
		alert := sweep.Alert{Count: 5, Within: 10 * time.Minute, Func: notify.Alert(b, 10*time.Minute, nil)}
		alert.Func(t.Context(), 6)
		alert.Func(t.Context(), 6)
		deliver(t, newSender(t, b, r))
		require.Len(t, r.ids(), 2)
		assert.Contains(t, r.all()[0].body, `"type":"watchdog.alert"`)
		assert.Contains(t, r.all()[0].body, `"cancels":6,"within_seconds":600,`)
	})
	bubble(t, "a database that fails for a moment", func(t *testing.T) {
		b, log := newBox(), &locked.Buffer{}
		failures := 2
		b.onCall(func(context.Context, string) error {
			if failures--; failures >= 0 {
				return errDown
			}
			return nil
		})
		notify.Alert(b, time.Minute, logTo(log))(t.Context(), 6)
		assert.Equal(t, 1, b.left())
		assert.Empty(t, log.String())
	})
	bubble(t, "one that stays down is an error in the log", func(t *testing.T) {
		b, log := newBox(), &locked.Buffer{}
		b.onCall(func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() })
		began := time.Now()
		notify.Alert(b, time.Minute, logTo(log))(t.Context(), 6)
		assert.Less(t, time.Since(began), sweep.DefaultStopTimeout)
		assert.Contains(t, log.String(), "level=ERROR")
		assert.Contains(t, log.String(), "cancels=6 within=1m0s")
	})
	bubble(t, "it ends with its context", func(t *testing.T) {
		b, log := newBox(), &locked.Buffer{}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		notify.Alert(b, time.Minute, logTo(log))(ctx, 6)
		assert.Zero(t, time.Since(began))
		assert.Contains(t, log.String(), "nobody is told")
	})
}
