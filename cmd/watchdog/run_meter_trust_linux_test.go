package main_test

import (
	"log/slog"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// secretModels are models behind a certificate that nobody trusts who is not told to.
func secretModels(t *testing.T) *models {
	t.Helper()
	return serveModels(t, func(m *models) {
		m.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
		m.EnableHTTP2 = true
		m.StartTLS()
	})
}

// TestMeterTrust checks that what the command trusts is trusted on the way to its API.
func TestMeterTrust(t *testing.T) {
	t.Parallel()
	for _, variable := range []string{"NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"} {
		t.Run(variable, func(t *testing.T) {
			t.Parallel()
			f, m := newFixture(t), secretModels(t)
			cmd := f.metered(m, "--tokens 5000", "ask:anthropic+stream", "ask:chat")
			cert := f.path("cert.pem")
			require.NoError(t, os.WriteFile(cert, pemOf(m.Certificate()), 0o600))
			cmd.Env = append(cmd.Env, "NODE_EXTRA_CA_CERTS=", "SSL_CERT_FILE=", variable+"="+cert)
			o := f.ended(cmd).must(t, 0)
			assert.Contains(t, o.stdout, answerCanary)
			assert.Empty(t, o.stderr)
			assert.EqualValues(t, 2, m.served.Load())
			assert.EqualValues(t, 2, m.proto.Load(), "over HTTP/2, as without more certificates")
		})
	}
	t.Run("what cannot be read is said", func(t *testing.T) {
		t.Parallel()
		f, m := newFixture(t), serveModels(t)
		cmd := f.metered(m, "--tokens 5000", "ask:chat")
		cmd.Env = append(cmd.Env, "NODE_EXTRA_CA_CERTS="+f.path("gone.pem"))
		o := f.ended(cmd).must(t, 0)
		assert.Equal(t, `watchdog: certificates are not read, variable "NODE_EXTRA_CA_CERTS", error "open `+f.path("gone.pem")+
			": no such file or directory\"\n", o.stderr)
	})
}
