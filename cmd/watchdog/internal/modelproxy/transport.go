package modelproxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
)

// A lookupFunc returns the value of a variable of the command's environment, and whether it is set.
type lookupFunc func(variable string) (string, bool)

// newTransport returns what calls the APIs as the command would: through its proxy, with the certificates that it
// trusts.
func newTransport(env lookupFunc, logger *slog.Logger) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is one
	t.MaxIdleConnsPerHost = 100
	t.OnProxyConnectResponse = checkProxy
	if roots := trusted(env, logger); roots != nil {
		t.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	return t
}

// authorities are the variables that name a file of certificates to trust.
var authorities = []string{"NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"}

// trusted returns what the machine trusts, with the certificates that the environment names; nil if it names none. A
// file that cannot be read is logged and not an error: its clients say so, too, and go on.
func trusted(env lookupFunc, logger *slog.Logger) (roots *x509.CertPool) {
	for _, name := range authorities {
		path, _ := env(name)
		if path == "" {
			continue
		}
		text, err := os.ReadFile(path)
		if err == nil && roots == nil {
			if roots, err = x509.SystemCertPool(); err != nil {
				roots, err = x509.NewCertPool(), nil // the machine has none
			}
		}
		if err == nil && !roots.AppendCertsFromPEM(text) {
			err = errors.New("it has no certificate in PEM")
		}
		if err != nil {
			logger.Warn("certificates are not read", slog.String("variable", name), slog.Any("error", err))
		}
	}
	return roots
}

// A proxyError is why the user's proxy did not connect to an API. It has nothing of the proxy's address but the host.
type proxyError struct {
	host   string
	status int
}

// Error names the proxy and its status.
func (e *proxyError) Error() string {
	text := fmt.Sprintf("the proxy %s refused the connection: %d %s", e.host, e.status, http.StatusText(e.status))
	return strings.TrimSpace(text)
}

// checkProxy has the error of a refused CONNECT say who refused it.
func checkProxy(_ context.Context, proxy *url.URL, _ *http.Request, answer *http.Response) error {
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	return &proxyError{proxy.Host, answer.StatusCode}
}
