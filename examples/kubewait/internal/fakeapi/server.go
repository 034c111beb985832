package fakeapi

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// The kinds of object.
const (
	CRD        = "crd"
	Deployment = "deployment"
)

// Replicas is the number of replicas of a deployment.
const Replicas = 3

// A Config describes the server's object. [Start] copies it.
type Config struct {
	// Kind is [CRD] or [Deployment]. A deployment is in the namespace default.
	Kind, Name string
	// AppearsAfter is the time from [Start] until the object exists; zero means never. See also [Server.Appear].
	AppearsAfter time.Duration
	// Pace is the time that each replica of a deployment takes to become ready.
	Pace time.Duration
}

// A Server listens on the loopback interface. Its methods are safe for concurrent use.
type Server struct {
	cfg    Config
	url    string
	http   *http.Server
	served chan error

	mu       sync.Mutex
	appeared time.Time // zero if the object never appears
}

// Start starts a server. Only [Server.Close] ends it.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, url: "http://" + listener.Addr().String(), served: make(chan error, 1)}
	if cfg.AppearsAfter > 0 {
		s.appeared = time.Now().Add(cfg.AppearsAfter)
	}
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() { s.served <- s.http.Serve(listener) }()
	return s, nil
}

// URL returns the server's URL, without a slash at the end.
func (s *Server) URL() string { return s.url }

// Appear makes the object exist from now on, unless it exists already.
func (s *Server) Appear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.appeared.IsZero() || s.appeared.After(now) {
		s.appeared = now
	}
}

// Close ends the server and its requests.
func (s *Server) Close() error {
	err := s.http.Close()
	if failed := <-s.served; !errors.Is(failed, http.ErrServerClosed) {
		err = errors.Join(err, failed)
	}
	return err
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind, name, known := parse(r.URL.Path)
	switch {
	case r.Method != http.MethodGet:
		http.Error(w, "the server does not allow this method on the requested resource", http.StatusMethodNotAllowed)
	case !known:
		http.Error(w, "404 page not found", http.StatusNotFound)
	default:
		s.get(w, kind, name)
	}
}

func (s *Server) get(w http.ResponseWriter, kind, name string) {
	age, there := s.age()
	if !there || kind != s.cfg.Kind || name != s.cfg.Name {
		answer(w, http.StatusNotFound, notFound(kind, name))
		return
	}
	if kind == CRD {
		answer(w, http.StatusOK, definition(name))
		return
	}
	ready := Replicas
	if s.cfg.Pace > 0 {
		ready = min(int(age/s.cfg.Pace), Replicas)
	}
	answer(w, http.StatusOK, deployment(name, ready))
}

// age returns how long the object has existed.
func (s *Server) age() (age time.Duration, there bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.appeared.IsZero() {
		return 0, false
	}
	age = time.Since(s.appeared)
	return age, age >= 0
}

func answer(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object) // the client may have gone
}
