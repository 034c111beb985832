package clients_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An upstream is a server in the place of all model APIs. It follows a script, and bills each call: the tokens of the
// request by a fixed tokenizer, with a hidden prompt, and those of its answer, of which it says the same as usage.
type upstream struct {
	*httptest.Server
	script  script
	environ []string // by which it is reached

	mu     sync.Mutex
	keys   int // calls that came with the key and the prompt
	served []served
	other  []string // requests that are no call of a model, once each
}

// A script is what the models do.
type script struct {
	// turns is how many times a conversation calls a tool before it ends.
	turns int
	// agents is how many sub-agents the first turn starts, of a client that has them.
	agents int
	// fills is the maximum of output below which an answer in the main conversation is longer than that. Clients ask for
	// more themselves.
	fills int64
	// fail returns how to answer the n-th call instead, from 1, or nil.
	fail func(n int) *failure
}

// A failure is an answer that is none.
type failure struct {
	status int
	header map[string]string
	body   string // %s is the API's own form if it is empty
}

// A served is a call of a model that came.
type served struct {
	path          string
	status        int
	input, output int64
	streamed, cut bool
	ended         time.Time
}

// billed are the tokens of the call.
func (s served) billed() int64 { return s.input + s.output }

// hidden are the tokens of the prompt that a model has besides what is in a request, as for tools.
const hidden = 300

// tokensOf is the tokenizer.
func tokensOf(text string) int64 { return int64(len(text)+3) / 4 }

// An ask is what a request asks for.
type ask struct {
	api      wire
	model    string
	streamed bool
	most     int64 // of its output, 0 if it does not say
	thinks   bool
	tools    []string
	results  int  // of tools, in its history
	main     bool // it is no sub-agent's, or on the side
	input    int64
	usage    bool   // it asks for the usage of a stream
	form     object // the schema of its answer, if it has one
}

// A wire is the form of one API.
type wire struct {
	read   func(path string, body map[string]any, a *ask)
	whole  func(a *ask, said answer) any
	stream func(a *ask, said answer, send func(event string, data any))
	done   string // what ends a stream
	failed func(status int) any
}

// wireOf returns the form of the API of a path.
func wireOf(method, path string) (wire, bool) {
	if method != http.MethodPost {
		return wire{}, false
	}
	switch {
	case path == "/v1/messages":
		return anthropic, true
	case path == "/v1/responses":
		return responses, true
	case path == "/v1/chat/completions":
		return chat, true
	case strings.HasPrefix(path, "/v1beta/models/") && strings.HasSuffix(path, "enerateContent"):
		return gemini, true
	}
	return wire{}, false
}

// serve has an upstream at an address that the variables of the APIs name.
func serve(t *testing.T, s script) *upstream {
	t.Helper()
	u := &upstream{script: s}
	u.Server = httptest.NewServer(u)
	t.Cleanup(func() { u.CloseClientConnections(); u.Close() })
	for _, base := range []string{"ANTHROPIC_BASE_URL=", "OPENAI_BASE_URL=", "GOOGLE_GEMINI_BASE_URL="} {
		u.environ = append(u.environ, base+u.URL)
	}
	u.environ[1] += "/v1"
	return u
}

// ServeHTTP implements [http.Handler].
func (u *upstream) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the client is gone
	}
	api, known := wireOf(req.Method, req.URL.Path)
	if !known {
		u.aside(w, req, body)
		return
	}
	a := &ask{api: api, main: bytes.Contains(body, []byte(mainPrompt)), input: tokensOf(string(body)) + hidden}
	var has map[string]any
	if err := json.Unmarshal(body, &has); err != nil {
		http.Error(w, "no JSON", http.StatusBadRequest)
		return
	}
	api.read(req.URL.Path, has, a)
	n := u.begin(req, body, a)
	if u.script.fail != nil {
		if f := u.script.fail(n); f != nil {
			u.failed(w, n, f, api)
			return
		}
	}
	said, cut := u.next(a).within(a.most)
	said.cut = cut
	u.bill(n, a.input, said.tokens(), cut)
	if !a.streamed {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(api.whole(a, said))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	api.stream(a, said, func(event string, data any) {
		text, _ := json.Marshal(data)
		if event != "" {
			_, _ = fmt.Fprintf(w, "event: %s\n", event)
		}
		_, _ = fmt.Fprintf(w, "data: %s\n\n", text)
		w.(http.Flusher).Flush()
	})
	_, _ = io.WriteString(w, api.done)
}

// begin notes a call, and returns its number.
func (u *upstream) begin(req *http.Request, body []byte, a *ask) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	if strings.Contains(fmt.Sprint(req.Header), keyCanary) && bytes.Contains(body, []byte(promptCanary)) {
		u.keys++
	}
	u.served = append(u.served, served{path: req.URL.Path, streamed: a.streamed, status: http.StatusOK})
	return len(u.served)
}

func (u *upstream) bill(n int, input, output int64, cut bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := &u.served[n-1]
	s.input, s.output, s.cut, s.ended = input, output, cut, time.Now()
}

func (u *upstream) failed(w http.ResponseWriter, n int, f *failure, api wire) {
	u.mu.Lock()
	u.served[n-1].status = f.status
	u.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	for name, value := range f.header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(f.status)
	if f.body != "" {
		_, _ = io.WriteString(w, f.body)
		return
	}
	_ = json.NewEncoder(w).Encode(api.failed(f.status))
}

// aside answers what is no call of a model.
func (u *upstream) aside(w http.ResponseWriter, req *http.Request, body []byte) {
	u.mu.Lock()
	if what := req.Method + " " + req.URL.Path; !slices.Contains(u.other, what) {
		u.other = append(u.other, what)
	}
	u.mu.Unlock()
	if strings.HasSuffix(req.URL.Path, "/count_tokens") || strings.HasSuffix(req.URL.Path, ":countTokens") {
		n := tokensOf(string(body)) + hidden
		_ = json.NewEncoder(w).Encode(object{"input_tokens": n, "totalTokens": n})
		return
	}
	if req.Header.Get("Upgrade") != "" {
		w.WriteHeader(http.StatusUpgradeRequired)
		return
	}
	http.NotFound(w, req)
}

// calls returns what was served until now.
func (u *upstream) calls() []served {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]served(nil), u.served...)
}

type object = map[string]any

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
