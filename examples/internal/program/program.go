// Package program is what the example programs have in common: their help in one form, and the server of their pages.
// It parses nothing, and knows nothing of runs.
package program

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// A Help is the help of one program.
type Help struct {
	// What is a sentence that says what the program does.
	What string
	// Use is the program with what it takes.
	Use   string
	Flags *flag.FlagSet
	// Status says what the exit statuses mean.
	Status string
}

// String returns the text.
func (h Help) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n\nusage: %s\n", h.What, h.Use)
	h.Flags.SetOutput(&text)
	h.Flags.PrintDefaults()
	fmt.Fprintf(&text, "\nExit status: %s\n", h.Status)
	return text.String()
}

// Serve serves pages at an address, and returns their URL. Stop closes the server and its connections, and returns when
// nothing is served any more.
func Serve(ctx context.Context, address string, pages http.Handler) (url string, stop func(), err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return "", nil, fmt.Errorf("-http: %w; use a free address of this machine, such as 127.0.0.1:8080", err)
	}
	server := &http.Server{Handler: pages, ReadHeaderTimeout: 5 * time.Second}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(listener) }) // it returns after the Close below
	return fmt.Sprintf("http://%s/", listener.Addr()), func() {
		_ = server.Close()
		served.Wait()
	}, nil
}
