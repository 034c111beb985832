package clients_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// vendors are the hosts of the APIs.
var vendors = []string{"api.anthropic.com", "api.openai.com", "generativelanguage.googleapis.com"}

// A company is a proxy to the outside, where an upstream is at the hosts of the vendors and nobody else is. It logs
// what it can read.
type company struct {
	to string // the upstream's address

	mu     sync.Mutex
	logged string
	asked  []string // hosts, once each
	conns  sync.WaitGroup
}

// serveVendors has an upstream at the hosts of the vendors, behind a proxy.
func serveVendors(t *testing.T, s script) (*upstream, *company) {
	t.Helper()
	u := &upstream{script: s}
	u.Server = httptest.NewUnstartedServer(u)
	cert := selfSigned(t)
	u.TLS, u.EnableHTTP2 = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, true
	u.StartTLS()
	c := &company{to: u.Listener.Addr().String()}
	proxy := httptest.NewServer(c)
	t.Cleanup(func() {
		u.CloseClientConnections()
		u.Close()
		proxy.CloseClientConnections()
		c.conns.Wait()
		proxy.Close()
	})
	file := filepath.Join(t.TempDir(), "cert.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	u.environ = []string{"SSL_CERT_FILE=" + file, "HTTPS_PROXY=" + proxy.URL, "HTTP_PROXY=" + proxy.URL}
	return u, c
}

// selfSigned is a certificate for the vendors' hosts.
func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: vendors, NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// ServeHTTP implements [http.Handler].
func (c *company) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	host := req.URL.Hostname()
	c.mu.Lock()
	c.logged += fmt.Sprintln(req.Method, req.URL, req.Header)
	if !slices.Contains(c.asked, host) {
		c.asked = append(c.asked, host)
	}
	c.mu.Unlock()
	if req.Method != http.MethodConnect || !slices.Contains(vendors, host) {
		http.Error(w, "nobody is there", http.StatusForbidden)
		return
	}
	server, err := (&net.Dialer{}).DialContext(req.Context(), "tcp", c.to)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	client, _, err := w.(http.Hijacker).Hijack() // before the answer: what the client sends after it is not buffered
	if err != nil {
		_ = server.Close()
		return
	}
	_, _ = io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
	c.conns.Go(func() { _, _ = io.Copy(server, client); _ = server.Close(); _ = client.Close() })
	c.conns.Go(func() { _, _ = io.Copy(client, server); _ = server.Close(); _ = client.Close() })
}

// log returns what the proxy has logged, and the hosts that it was asked for.
func (c *company) log() (text string, asked []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.logged, slices.Clone(c.asked)
}
