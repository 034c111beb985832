package page_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/seed62658d38/watchdog/page"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// A host mounts the page under any prefix, behind its own authentication, and gives it the passes of its sweeper.
func ExampleNew() {
	store := &session.Memory{} // a store of store/sqlite or store/postgres
	passes := &page.PassLog{}
	sweeper, err := sweep.New(store, store, sweep.Config{OnPass: passes.Add})
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := page.New(page.Config{Sessions: store, Events: store, Sweeper: sweeper, PassLog: passes})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	mux := http.NewServeMux()
	mux.Handle("/ops/watchdog/", p)

	server := httptest.NewServer(mux)
	defer server.Close()
	request, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, server.URL+"/ops/watchdog/", nil)
	response, err := server.Client().Do(request)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
	fmt.Println(response.Status)
	// Output: 200 OK
}
