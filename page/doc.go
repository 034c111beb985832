// Package page shows runs and sessions in a browser: what runs, how much of each limit is left, what ended and why, and
// what a sweeper does. A [Page] is one [net/http.Handler] that a host mounts under any prefix, behind its own
// authentication:
//
//	p, err := page.New(page.Config{Sessions: store, Events: store})
//	...
//	http.Handle("/watchdog/", p)
//
// It serves at whatever path it is given: the query says which page is meant, such as ?run=s-1, and every link is
// relative to the page that it is on. So it needs no [net/http.StripPrefix] and works with it, and a run ID with
// slashes is never a part of a path. It answers GET and HEAD only, and writes nothing.
//
// # What it shows
//
// The list has the live runs first, the newest of them at the top, then those that have ended, and a run under the one
// that it is in. It can be searched by ID, sorted, and narrowed to some states; how many runs have each state is
// counted. All of that is of the newest 5,000 runs, or of fewer if their rows are large, so that a page costs the same
// whatever the database has; older ones follow as a list of their own. A live run has a bar for the limit that is
// nearest its end, of those that its row tells of, see [session.State]: a bar is full at first and burns down, with the
// part that is kept for wrapping up and the moments of the warnings marked. A run of another host is drawn in the same
// way, because its row says all of it.
//
// The page of a run has all its bars, its timeline, drawn by the server from its events and its row, its layers, and
// why it ended. The page of the sweeper says what it did last and will do next, with its passes and what they
// cancelled, see [PassLog]. Times are in the reader's zone, without the script in UTC.
//
// # How it stays live
//
// While somebody looks, one goroutine lists the live runs, twice a second, or more seldom when the database is slow:
// at most a twentieth of the time goes into that. It sends what has changed to all readers in one frame, at most four
// times a second, made once and shared. The page of a run is drawn anew when its row or that of a layer changes, and
// every five seconds while it runs. Without readers nothing is asked. A reader that does not take what it is sent is
// dropped, and a browser then connects anew and gets the present state. Without its script the page reloads itself.
//
// # What it does not do
//
// It changes nothing, and asks nobody who they are. It answers any name, unless [Config].Hosts has some. It requests
// nothing from any other server, and its Content-Security-Policy has the browser refuse to. It shows what rows and
// events say, as text, whatever that is: IDs, notes and reasons, but never output, arguments or prompts, which are in
// neither.
package page
