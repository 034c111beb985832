package page

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/story"
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
	name, view, status := "", any(nil), http.StatusOK
	if err == nil {
		name, view, err = p.view(r.Context(), query)
	}
	if err != nil {
		known := &httpError{
			http.StatusServiceUnavailable,
			"The database does not answer. The log of this server says why. Reload the page to try again.",
		}
		if !errors.As(err, &known) { // what a store says can have an address or a name in it that is not for readers
			p.logger().WarnContext(r.Context(), "a page has no data", "error", err)
		}
		name, view, status = "error", errorView{p.frame("", "Error"), known.text}, known.status
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
	var ask func(ctx context.Context) (any, error) // it may go on when nobody waits for it any more
	switch {
	case query.Has("run"):
		name, ask = "run", func(ctx context.Context) (any, error) {
			return p.viewRun(ctx, query.Get("run"), query.Get("layers"))
		}
	case query.Get("view") == "sweeper":
		name, ask = "sweeper", func(ctx context.Context) (any, error) { return p.viewSweeper(ctx) }
	case query.Has("view"):
		return "", nil, &httpError{http.StatusNotFound, "There is no such page."}
	default:
		name, ask = "list", func(ctx context.Context) (any, error) { return p.viewList(ctx, query) }
	}
	view, err = asked(ctx, ask)
	return name, view, err
}

func write(w http.ResponseWriter, r *http.Request, status int, text []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(text) // nobody to tell: the client is gone
	}
}

type errorView struct {
	frameView
	Text string
}

// A frameView is what all pages have around them.
type frameView struct {
	Site, Title, Here string
	Refresh           int // seconds, without the script; 0 for never
}

func (p *Page) frame(here, title string) frameView {
	return frameView{Site: p.cfg.Title, Title: title, Here: here}
}

// hosts are the names that are answered, as hostName returns them; nil for any.
type hosts map[string]bool

func newHosts(names []string) (hosts, error) {
	if len(names) == 0 {
		return nil, nil
	}
	known := hosts{}
	for _, name := range names {
		host := hostName(name)
		if !isHostName(host) {
			return nil, fmt.Errorf("%w page config: Hosts has %q; write a name as browsers send it, such as "+
				"watchdog.example.com, or an IP address", watchdog.ErrInvalid, name)
		}
		known[host] = true
	}
	return known, nil
}

// Guard returns a handler that answers the same names as the page: for what a host serves beside it.
func (p *Page) Guard(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.hosts.answer(w, r) {
			handler.ServeHTTP(w, r)
		}
	})
}

// answer reports whether a request is answered. If it is not, it says what to do.
func (h hosts) answer(w http.ResponseWriter, r *http.Request) bool {
	if h == nil {
		return true
	}
	host := hostName(r.Host)
	if h[host] || host != "" && host == localAddress(r) {
		return true
	}
	http.Error(w, "This server is not known by the name that was asked for. Use its own name or address, "+
		"or have whoever runs it add the name: watchdog serve --host NAME, or page.Config.Hosts.",
		http.StatusMisdirectedRequest)
	return false
}

// localAddress returns the address that the connection of a request was made to. Whoever asks for that one has no other
// name for it, and a health check may have nothing else.
func localAddress(r *http.Request) string {
	if at, is := r.Context().Value(http.LocalAddrContextKey).(net.Addr); is {
		return hostName(at.String())
	}
	return ""
}

// hostName returns the name in a Host header, without port, in one form. What is none stays different from all names.
func hostName(host string) string {
	if name, port, err := net.SplitHostPort(host); err == nil && strings.Trim(port, "0123456789") == "" {
		host = name
	} else if inside, found := strings.CutPrefix(host, "["); found && strings.HasSuffix(inside, "]") {
		host = strings.TrimSuffix(inside, "]")
	}
	if address, err := netip.ParseAddr(host); err == nil {
		return address.Unmap().WithZone("").String()
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// isHostName reports whether the text is an IP address, or could be a name.
func isHostName(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789-._"
	return host != "" && strings.Trim(host, letters) == "" && !strings.HasSuffix(host, ".")
}

//go:embed assets
var assets embed.FS

// A file is the script, the style or the icon.
type file struct {
	kind, hash string
	text       []byte
}

// files are hashed with the first page, and templates parsed, because every program that imports the package would wait
// for it as it starts.
var files = sync.OnceValue(func() map[string]file {
	return map[string]file{
		"page.js":  newFile("page.js", "text/javascript; charset=utf-8"),
		"page.css": newFile("page.css", "text/css; charset=utf-8"),
		"icon.svg": newFile("icon.svg", "image/svg+xml"),
	}
})

func newFile(name, kind string) file {
	text, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // the file is not in the binary: no program without it passes a test
	}
	sum := sha256.Sum256(text)
	return file{kind, hex.EncodeToString(sum[:6]), text}
}

var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"file":   func(name string) template.URL { return template.URL("?file=" + name + "&v=" + files()[name].hash) },
		"length": length,
		"spent":  story.SpentText,
		"stamp":  func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"utc":    func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" },
		"millis": func(t time.Time) int64 { return t.UnixMilli() },
		"add":    func(a, b int) int { return a + b },
	}).ParseFS(assets, "assets/*.html"))
})
