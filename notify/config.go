package notify

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/seed62658d38/watchdog"
)

// The defaults of a [Config], and the least KeepFor.
const (
	DefaultKeepFor  = 7 * 24 * time.Hour
	LeastKeepFor    = 24 * time.Hour
	DefaultPoll     = 10 * time.Second
	DefaultTimeout  = 10 * time.Second
	DefaultParallel = 8
)

// maxParallel keeps a mistake from opening as many connections.
const maxParallel = 100

// A Config says where notices go. URL and a secret are needed; the zero value of every other field is its default.
// [New] copies it.
type Config struct {
	// URL is the webhook: https, or http on this machine, without a user or a password. What follows its host can be a
	// secret, and is in no error and no log.
	URL string
	// Secrets sign each notice, all of them: while a receiver changes to a new one, give both. Each is 24 to 64 random
	// bytes in base64, with or without whsec_ before them.
	Secrets []string
	// SecretFile names a file with more secrets, one in a line. New reads it once.
	SecretFile string
	// Completes sends the completion of runs, too. Without it they are removed from the outbox.
	Completes bool
	// Layers sends the ends of layers, too: of a phase, a tool call or a command inside of a run. Without it they are
	// removed from the outbox: the run around them goes on, or has a notice of its own.
	Layers bool
	// KeepFor is how long a notice is tried, at least [LeastKeepFor]. It is the sum of the pauses between the tries, so
	// that no clock that is wrong has a notice dropped early. Zero means [DefaultKeepFor].
	KeepFor time.Duration
	// Poll is how often the outbox is looked at. Zero means [DefaultPoll].
	Poll time.Duration
	// Timeout limits each POST, its answer included. Zero means [DefaultTimeout].
	Timeout time.Duration
	// Parallel is how many are sent at once, at most 100. Zero means [DefaultParallel].
	Parallel int
	// Transport sends the requests. It has to return when their context ends. Nil means one of its own, as
	// [http.DefaultTransport].
	Transport http.RoundTripper
	// Logger gets what no call returns. Nil means [slog.Default].
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.KeepFor = cmp.Or(c.KeepFor, DefaultKeepFor)
	c.Poll = cmp.Or(c.Poll, DefaultPoll)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.Parallel = cmp.Or(c.Parallel, DefaultParallel)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// Validate returns an error that wraps [watchdog.ErrInvalid] and says what is wrong with the config, but for its
// secrets, which only [New] reads. It has no more of the URL than its host.
func (c Config) Validate() error {
	_, badURL := c.target()
	return invalid(c.withDefaults().flaw(), badURL)
}

// invalid joins what is wrong with a config, nil if nothing is.
func invalid(flaw string, more ...error) error {
	if flaw != "" {
		more = append(more, errors.New(flaw))
	}
	if err := errors.Join(more...); err != nil {
		return fmt.Errorf("%w sender config: %w", watchdog.ErrInvalid, err)
	}
	return nil
}

// flaw says what is wrong with a config that has its defaults.
func (c Config) flaw() string {
	switch {
	case c.KeepFor < LeastKeepFor:
		return fmt.Sprintf("KeepFor is %v; use at least %v, or 0 for %v", c.KeepFor, LeastKeepFor, DefaultKeepFor)
	case c.Poll < 0:
		return fmt.Sprintf("Poll is %v; use a positive duration, or 0 for %v", c.Poll, DefaultPoll)
	case c.Timeout < 0 || c.Timeout == watchdog.NoLimit:
		return fmt.Sprintf("Timeout is %v; use a positive duration, or 0 for %v", c.Timeout, DefaultTimeout)
	case c.Parallel < 0 || c.Parallel > maxParallel:
		return fmt.Sprintf("Parallel is %d; use 1 to %d, or 0 for %d", c.Parallel, maxParallel, DefaultParallel)
	}
	return ""
}

// target reads the URL. Its errors say at most the scheme and the host of it.
func (c Config) target() (*url.URL, error) {
	const use = "use one such as https://hooks.example.com/watchdog"
	if c.URL == "" {
		return nil, errors.New("URL is empty; " + use)
	}
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, errors.New("URL cannot be read, and is not repeated because it may have a secret; " + use)
	}
	switch {
	case u.User != nil:
		return nil, errors.New("URL has a user or a password, which end in logs; leave it out, the secret signs each notice")
	case u.Hostname() == "":
		return nil, errors.New("URL has no host; " + use)
	case u.Scheme == "http" && !isThisMachine(u.Hostname()):
		return nil, fmt.Errorf("URL is http to %s, where others can read it; use https", u.Host)
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("URL has the scheme %q; use https", u.Scheme)
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

func isThisMachine(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}
