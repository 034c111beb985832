package modelproxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog/watchdoghttp"
)

// Config says what a proxy charges, and where it forwards to. The zero value counts tokens, and refuses calls whose
// most is not known.
type Config struct {
	// Lookup is the command's environment: a variable that is set there says where its API is. Nil means that none is.
	Lookup func(variable string) (string, bool)
	// Prices and Models are those of a [watchdoghttp.Meter].
	Prices *watchdoghttp.Prices
	Models map[string]watchdoghttp.Maximum
	// Base does the exchanges; nil means a transport of the proxy's own, without a proxy of the environment's host
	// itself.
	Base http.RoundTripper
}

// A Proxy forwards the calls of one command. Its methods are safe for concurrent use.
type Proxy struct {
	server *http.Server
	base   string // http://127.0.0.1:PORT/SECRET
	secret string
	to     map[API]*url.URL
	calls  atomic.Int64
	served chan struct{}
	own    *http.Transport
}

// Start begins to serve. Calls are charged to the run of ctx, and end with ctx. The error says which variable is wrong,
// or that nothing can listen.
func Start(ctx context.Context, cfg Config) (*Proxy, error) {
	if cfg.Lookup == nil {
		cfg.Lookup = func(string) (string, bool) { return "", false }
	}
	to, err := upstreams(cfg.Lookup)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for calls of models: %w", err)
	}
	p := &Proxy{secret: rand.Text(), to: to, served: make(chan struct{})}
	p.base = "http://" + listener.Addr().String() + "/" + p.secret
	if cfg.Base == nil {
		p.own = http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is one
		p.own.MaxIdleConnsPerHost = 100
		cfg.Base = p.own
	}
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug) // a line of it could hold a URL
	p.server = &http.Server{
		Handler: p.handler(cfg), ErrorLog: quiet, ReadHeaderTimeout: time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	go func() {
		defer close(p.served)
		_ = p.server.Serve(listener)
	}()
	return p, nil
}

// Environ returns the environment with the variables by which clients find the proxy.
func (p *Proxy) Environ(env []string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return slices.Contains(Variables(), name)
	})
	for _, c := range clients {
		env = append(env, c.variable+"="+p.URL(c.api))
	}
	return direct(env)
}

// direct has clients reach the loopback interface without the proxy that their environment names.
func direct(env []string) []string {
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		value := "127.0.0.1"
		for _, pair := range slices.Backward(env) { // the last one counts
			if before, found := strings.CutPrefix(pair, name+"="); found && before != "" {
				value = before + "," + value
				break
			}
		}
		env = append(env, name+"="+value)
	}
	return env
}

// URL returns the base of the requests of an API, for a client that takes it as a flag. It holds what others must not
// know.
func (p *Proxy) URL(api API) string { return p.base + "/" + string(api) }

// Calls returns how many calls came for a model API, also those that were refused.
func (p *Proxy) Calls() int64 { return p.calls.Load() }

// Close ends every call and waits until nothing serves any more.
func (p *Proxy) Close() error {
	err := p.server.Close()
	<-p.served
	if p.own != nil {
		p.own.CloseIdleConnections()
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close the proxy of model calls: %w", err)
	}
	return nil
}

type apiKey struct{}

func (p *Proxy) handler(cfg Config) http.Handler {
	forward := &httputil.ReverseProxy{
		Rewrite: p.rewrite, ErrorHandler: fail, FlushInterval: -1,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
		Transport: &watchdoghttp.Meter{
			Base: cfg.Base, Prices: cfg.Prices, Models: cfg.Models, Logger: slog.New(slog.DiscardHandler),
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		api, rest, known := p.route(req.URL)
		if !known {
			http.NotFound(w, req)
			return
		}
		if req.Method == http.MethodPost {
			p.calls.Add(1)
		}
		if why := unmetered(w, req); why != "" {
			refusalOf(api, "watchdog: "+why).write(w)
			return
		}
		req.URL = rest
		forward.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), apiKey{}, api)))
	})
}

// route returns the API of a request, and its URL below the API's base.
func (p *Proxy) route(u *url.URL) (api API, rest *url.URL, known bool) {
	path, found := strings.CutPrefix(u.EscapedPath(), "/"+p.secret+"/")
	if !found {
		return "", nil, false
	}
	name, path, _ := strings.Cut(path, "/")
	if p.to[API(name)] == nil {
		return "", nil, false
	}
	rest, err := url.Parse("/" + path)
	if err != nil || rest.Host != "" {
		return "", nil, false
	}
	rest.RawQuery = u.RawQuery
	return API(name), rest, true
}

func (p *Proxy) rewrite(r *httputil.ProxyRequest) {
	api, _ := r.In.Context().Value(apiKey{}).(API)
	r.SetURL(p.to[api])
	r.Out.Host = ""
	// What is not read is not metered: br and zstd are not.
	if accepted := r.Out.Header.Get("Accept-Encoding"); accepted != "" {
		r.Out.Header.Set("Accept-Encoding", "identity")
		if strings.Contains(accepted, "gzip") {
			r.Out.Header.Set("Accept-Encoding", "gzip")
		}
	} else {
		r.Out.Header.Set("Accept-Encoding", "identity") // else the transport would ask for gzip and unpack it
	}
}

// fail answers a call that has no response. What went wrong on the way to the API is the client's to try again.
func fail(w http.ResponseWriter, req *http.Request, err error) {
	api, _ := req.Context().Value(apiKey{}).(API)
	why := refused(err)
	if cause := context.Cause(req.Context()); why == "" && cause != nil {
		why = refused(cause)
	}
	if why != "" {
		refusalOf(api, why).write(w)
		return
	}
	w.WriteHeader(http.StatusBadGateway)
}

// longestBody is what the meter reads ahead at most.
const longestBody = 32 << 20

// unmetered returns why a request cannot be metered, empty if it can. It keeps the body, which the meter reads before
// it is sent.
func unmetered(w http.ResponseWriter, req *http.Request) (why string) {
	if req.Header.Get("Upgrade") != "" {
		return "a connection that is upgraded, such as a WebSocket, is not metered; have the client use plain requests"
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, longestBody))
	if err != nil {
		return "the request is cut off, or too long to be metered"
	}
	req.ContentLength, req.TransferEncoding = int64(len(body)), nil
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	req.Body, _ = req.GetBody()
	return ""
}
