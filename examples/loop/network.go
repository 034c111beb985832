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

// A network is where the model is: a listener for its server, and a way to reach that.
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

// serve starts a server and returns its URL. Stop ends it with everything that hangs in it.
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

// client is an HTTP client of its own. The chunks of its streams are signs of life of the run whose context a request has, and that is also
// what limits how long they may be silent: its ladder says what to do then.
func (n network) client() *http.Client {
	return &http.Client{Transport: &watchdoghttp.Transport{
		Base: &http.Transport{DialContext: n.dial},
		Idle: watchdog.NoLimit,
	}}
}
