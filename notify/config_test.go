package notify_test

import (
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/notify"
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
