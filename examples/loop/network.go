package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

// A network connects the client to the model's server.
type network struct {
	listen func(context.Context) (net.Listener, error)
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
}

// loopback is the network of the program.
var loopback = network{
	listen: func(ctx context.Context) (net.Listener, error) {
		var listener net.ListenConfig
		return listener.Listen(ctx, "tcp", "127.0.0.1:0")
	},
	dial: (&net.Dialer{Timeout: time.Second}).DialContext,
}

// serve starts a server and returns its URL. Stop closes it and its connections.
func (n network) serve(ctx context.Context, handler http.Handler) (url string, stop func() error, err error) {
	listener, err := n.listen(ctx)
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	return "http://" + listener.Addr().String(), func() error {
		err := server.Close()
		if failed := <-served; !errors.Is(failed, http.ErrServerClosed) {
			err = errors.Join(err, failed)
		}
		return err
	}, nil
}

// client returns an HTTP client. Each chunk of a stream is a sign of life of the run in the request's context. The
// transport has no limit of its own: the run's idle limit and its ladder decide about a silent stream.
func (n network) client() *http.Client {
	return &http.Client{Transport: &watchdoghttp.Transport{
		Base: &http.Transport{DialContext: n.dial},
		Idle: watchdog.NoLimit,
	}}
}
