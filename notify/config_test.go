package notify_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
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
			_, err := notify.New(&box{}, &box{}, cfg)
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			require.ErrorContains(t, err, want)
			assert.NotContains(t, err.Error(), "canary")
			assert.NotContains(t, err.Error(), strings.TrimPrefix(otherSecret, "whsec_"))
		})
	}
	t.Run("several flaws are told at once", func(t *testing.T) {
		_, err := notify.New(&box{}, &box{}, notify.Config{Poll: -1})
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
		_, err := notify.New(nil, &box{}, notify.Config{URL: hook, Secrets: []string{secret}})
		require.ErrorIs(t, err, watchdog.ErrInvalid)
		_, err = notify.New(&box{}, nil, notify.Config{URL: hook, Secrets: []string{secret}})
		require.ErrorIs(t, err, watchdog.ErrInvalid)
	})
	for _, url := range []string{"http://localhost:8080/x", "http://127.0.0.1/", "http://[::1]:9/", "https://10.0.0.1/#x"} {
		t.Run(url+" can be used", func(t *testing.T) {
			s, err := notify.New(&box{}, &box{}, notify.Config{URL: url, SecretFile: file(t, secret+"\n"+otherSecret)})
			require.NoError(t, err)
			assert.NotEmpty(t, s.Host())
		})
	}
}
