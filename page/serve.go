package page

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// policy lets the browser load what is of this page, and nothing else. Filters are a form, so that forms may be sent
// here.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// An httpError is an error for the reader, with the status of the response.
type httpError struct {
	status int
	text   string
}

func (e *httpError) Error() string { return e.text }

// ServeHTTP serves the page that the query names: run for a run's, view=sweeper for the sweeper's, live for the stream
// of updates, file for the script and the style, and else the list.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !p.hosts.answer(w, r) {
		return
	}
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "use GET or HEAD: this page changes nothing", http.StatusMethodNotAllowed)
		return
	}
	query, err := parseQuery(r.URL)
	switch {
	case query.Has("file"):
		serveFile(w, r, query)
	case query.Has("live"):
		p.live.serve(w, r)
	default:
		p.serveView(w, r, query, err)
	}
}

// maxQuery is how long a query may be: it has room for the longest run IDs, of characters that are written with nine.
const maxQuery = 16 << 10

// parseQuery reads the query of a page. A text that no store can have is no question for it: a database answers with an
// error, as if it could not be asked.
func parseQuery(u *url.URL) (url.Values, error) {
	if len(u.RawQuery) > maxQuery {
		return nil, &httpError{http.StatusRequestURITooLong, "The address is too long: begin at the list."}
	}
	query := u.Query()
	for _, values := range query {
		for _, value := range values {
			if !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
				return nil, &httpError{http.StatusBadRequest, "The address has a text that nothing has: begin at the list."}
			}
		}
	}
	return query, nil
}

// serveFile serves a file that is linked with the hash of its content, and so can be kept for ever.
func serveFile(w http.ResponseWriter, r *http.Request, query url.Values) {
	file, found := files()[query.Get("file")]
	if !found {
		http.Error(w, "there is no such file", http.StatusNotFound)
		return
	}
	if query.Get("v") == file.hash {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	w.Header().Set("Content-Type", file.kind)
	write(w, r, http.StatusOK, file.text)
}

// serveView serves one of the pages for people, or an error that there already is.
func (p *Page) serveView(w http.ResponseWriter, r *http.Request, query url.Values, err error) {
	var name string
	var view any
	if err == nil {
		name, view, err = p.view(r.Context(), query)
	}
	status := http.StatusOK
	if err != nil {
		name, view, status = "error", p.viewError(r, err), http.StatusServiceUnavailable
		if known := (*httpError)(nil); errors.As(err, &known) {
			status = known.status
		}
	}
	var text bytes.Buffer
	if err := templates().ExecuteTemplate(&text, name, view); err != nil {
		p.logger().ErrorContext(r.Context(), "a page cannot be drawn", "page", name, "error", err)
		http.Error(w, "this page cannot be drawn; the log of this server says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	write(w, r, status, text.Bytes())
}

// view returns the page that a query names, with the name of its template.
func (p *Page) view(ctx context.Context, query url.Values) (name string, view any, err error) {
	ask := func(name string, view func(context.Context) (any, error)) (string, any, error) {
		made, err := asked(ctx, view)
		return name, made, err
	}
	switch {
	case query.Has("run"):
		return ask("run", func(ctx context.Context) (any, error) {
			return p.viewRun(ctx, query.Get("run"), query.Get("layers"))
		})
	case query.Get("view") == "sweeper":
		return ask("sweeper", func(ctx context.Context) (any, error) { return p.viewSweeper(ctx) })
	case query.Has("view"):
		return "", nil, &httpError{http.StatusNotFound, "There is no such page."}
	}
	return ask("list", func(ctx context.Context) (any, error) { return p.viewList(ctx, query) })
}

// write writes a response with its length.
func write(w http.ResponseWriter, r *http.Request, status int, text []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(text) // nobody to tell: the client is gone
	}
}

// An errorView is the page of an error.
type errorView struct {
	frameView
	Text string
}

// viewError says what a reader can do. What a store says can have an address or a name in it that is not for readers.
func (p *Page) viewError(r *http.Request, err error) errorView {
	view := errorView{p.frame("", "Error"), err.Error()}
	if known := (*httpError)(nil); !errors.As(err, &known) {
		p.logger().WarnContext(r.Context(), "a page has no data", "error", err)
		view.Text = "The database does not answer. The log of this server says why. Reload the page to try again."
	}
	return view
}

// A frameView is what all pages have around them.
type frameView struct {
	Site, Title, Here string
	Refresh           int // seconds, without the script; 0 for never
}

func (p *Page) frame(here, title string) frameView {
	return frameView{Site: p.cfg.Title, Title: title, Here: here}
}

// read returns the text of an embedded file, which is there.
func read(name string) []byte {
	text, err := fs.ReadFile(assets, "assets/"+name)
	if err != nil {
		panic(err) // the file is not in the binary: no program without it passes a test
	}
	return text
}
