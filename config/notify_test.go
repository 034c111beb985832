package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/config"
	"github.com/seed62658d38/watchdog/notify"
)

// everyNotify is a file in which no setting of the webhook has its default.
const everyNotify = `sweep:
  notify:
    webhook: https://hooks.example.com/canary
    secret_file: /etc/secret
    completes: true
    layers: true
    keep_for: 48h
`

func TestNotify(t *testing.T) {
	every := notify.Config{
		URL: "https://hooks.example.com/canary", SecretFile: "/etc/secret", Completes: true, Layers: true,
		KeepFor: 48 * time.Hour,
	}
	t.Run("a file", func(t *testing.T) {
		c := parse(t, everyNotify, nil)
		assert.Equal(t, every, c.Notify)
		assert.Contains(t, c.String(), "sweep.notify.webhook                          https://hooks.example.com/...  limits.yaml:3\n")
		assert.NotContains(t, c.String(), "canary")
	})
	t.Run("variables", func(t *testing.T) {
		c, err := config.Loader{Environment: []string{
			"WATCHDOG_NOTIFY_WEBHOOK=https://hooks.example.com/canary", "WATCHDOG_NOTIFY_SECRET_FILE=/etc/secret",
			"WATCHDOG_NOTIFY_COMPLETES=true", "WATCHDOG_NOTIFY_LAYERS=true", "WATCHDOG_NOTIFY_KEEP_FOR_MS=172800000",
		}}.Load("")
		require.NoError(t, err)
		assert.Equal(t, every, c.Notify)
	})
	t.Run("a variable switches it off with all that depends on it", func(t *testing.T) {
		c, err := config.Loader{Environment: []string{"WATCHDOG_NOTIFY_WEBHOOK=none"}}.Parse("limits.yaml", []byte(everyNotify))
		require.NoError(t, err)
		assert.Empty(t, c.Notify.URL)
		assert.Empty(t, c.Notify.SecretFile)
	})
	t.Run("the variable of a secret is none of these", func(t *testing.T) {
		c, err := config.Loader{Environment: []string{"WATCHDOG_NOTIFY_SECRET=canary"}}.Load("")
		require.NoError(t, err)
		assert.Empty(t, c.Notify.Secrets)
	})
	for text, want := range map[string]string{
		"webhook: ftp://hooks.example.com/canary":          `has the scheme "ftp"`,
		"webhook: http://hooks.example.com/canary":         "is http to hooks.example.com",
		"webhook: https://canary:canary@hooks.example.com": "has a user or a password",
		"webhook: canary":                                            "has no host",
		"webhook: https:///canary":                                   "has no host",
		"webhook: 'https://h/canary '":                               "has white space around it",
		"webhook: [https://h/canary]":                                "is a list",
		"webhooks: https://h/canary":                                 "did you mean webhook?",
		"secret: canary":                                             "stands under an unknown key",
		"secret_file: /etc/secret":                                   "can never take effect",
		"completes: true":                                            "can never take effect",
		"{webhook: https://h/canary, completes: canary}":             "is neither true nor false",
		"{webhook: https://h/canary, keep_for: 23h}":                 "is shorter than 24h0m0s",
		"{webhook: https://h/canary, keep_for: 0}":                   "is shorter than 24h0m0s",
		"{webhook: https://h/canary, webhook: https://other/canary}": "second value",
	} {
		t.Run(text, func(t *testing.T) {
			_, err := config.Parse("limits.yaml", fmt.Appendf(nil, "sweep:\n  notify:\n    %s\n", text), config.NoEnvironment)
			if strings.HasPrefix(text, "{") {
				_, err = config.Parse("limits.yaml", fmt.Appendf(nil, "sweep:\n  notify: %s\n", text), config.NoEnvironment)
			}
			require.ErrorContains(t, err, want)
			if !strings.Contains(text, "completes: canary") {
				assert.NotContains(t, err.Error(), "canary")
			}
		})
	}
	t.Run("an address in another place is not shown", func(t *testing.T) {
		for _, text := range []string{
			"sweep:\n  webhook: https://h/canary\n", "sweep:\n  hook: https://h/canary\n", "sweep:\n  notify: https://h/canary\n",
			"sweep:\n  notify: [https://h/canary]\n",
		} {
			_, err := config.Parse("limits.yaml", []byte(text), config.NoEnvironment)
			require.Error(t, err)
			assert.NotContains(t, err.Error(), "canary")
		}
		_, err := config.Loader{Environment: []string{"WATCHDOG_NOTIFY_WEBHOOK=canary"}}.Load("")
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "canary")
	})
}
