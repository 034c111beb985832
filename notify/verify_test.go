package notify_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/notify"
)

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
		assert.Equal(t, "msg_p5jXN8AQM9LWM0D4loKWxJek", id)
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
			assert.NotContains(t, err.Error(), "canary")
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
