package redact

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/viper"
	"github.com/zricethezav/gitleaks/v8/config"
	"github.com/zricethezav/gitleaks/v8/detect"
	"github.com/zricethezav/gitleaks/v8/report"
)

// redacted is the format of the text that replaces a credential, with the name of what found it.
const redacted = "[REDACTED:%s]"

// A Redactor removes credentials from bytes. [New] makes one; the zero value removes everything. It is safe for
// concurrent use.
type Redactor struct {
	patterns *patterns
	named    []string
}

// New returns a Redactor with the patterns of gitleaks. It fails only if those patterns cannot be read, which does not
// depend on any input.
func New() (*Redactor, error) {
	patterns, err := newPatterns()
	if err != nil {
		return nil, fmt.Errorf("read the patterns of gitleaks: %w", err)
	}
	return &Redactor{patterns: patterns}, nil
}

// Bytes returns a copy of p without what looks like a credential. It has the signature that the tail of a stalled
// command needs. It does not change p, which can be any bytes and can begin and end anywhere. If a pattern itself
// fails, Bytes removes everything.
//
// The result can be a few times as long as p: a credential has at least a few bytes, its replacement at most a few
// dozen.
func (r *Redactor) Bytes(p []byte) (out []byte) {
	defer func() {
		if recover() != nil { // a command's output must not end the host
			out = fmt.Appendf(nil, redacted, "all")
		}
	}()
	text := string(p)
	return replace(p, slices.Concat(named(r.named, text), keys(text), r.patterns.find(text), around(text)))
}

// replace returns a copy of p with a replacement for each span. Spans that overlap or touch get one replacement.
func replace(p []byte, spans []span) []byte {
	var out bytes.Buffer
	at := 0
	for _, s := range merge(spans) {
		out.Write(p[at:s.start])
		fmt.Fprintf(&out, redacted, s.name)
		at = s.end
	}
	out.Write(p[at:])
	return out.Bytes()
}

// decodeDepth is how often gitleaks decodes its own result. It is the default of the gitleaks command.
const decodeDepth = 5

// patterns are the patterns of gitleaks. A detector is safe for concurrent use: the gitleaks command relies on that
// too.
type patterns struct {
	detector *detect.Detector
}

// newPatterns reads the patterns as detect.NewDetectorDefaultConfig does, but without the global viper of the process,
// which belongs to the host.
func newPatterns() (*patterns, error) {
	reader := viper.New()
	reader.SetConfigType("toml")
	if err := reader.ReadConfig(strings.NewReader(config.DefaultConfig)); err != nil {
		return nil, err
	}
	var raw config.ViperConfig
	if err := reader.Unmarshal(&raw); err != nil {
		return nil, err
	}
	rules, err := raw.Translate()
	if err != nil {
		return nil, err
	}
	for id, rule := range rules.Rules {
		if rule.Regex != nil {
			rule.Path = nil // output has no file name
			rules.Rules[id] = rule
		}
	}
	detector := detect.NewDetector(rules)
	detector.MaxDecodeDepth = decodeDepth
	detector.IgnoreGitleaksAllow = true // the command's output must not decide what is redacted
	return &patterns{detector: detector}, nil
}

func (p *patterns) find(text string) []span {
	var found []span
	secrets := make(map[string]string)
	for _, finding := range p.detector.DetectString(text) {
		if decoded(finding) {
			found = append(found, findingSpan(text, finding))
		} else if secret := p.secret(finding); secret != "" {
			secrets[secret] = finding.RuleID
		}
	}
	return append(found, occurrences(text, secrets)...)
}

// secret returns what to hide for a finding. If a pattern has several groups, gitleaks takes the first that is not
// empty, which can be just the header of a token. Then secret returns the whole match.
func (p *patterns) secret(finding report.Finding) string {
	rule := p.detector.Config.Rules[finding.RuleID]
	if rule.SecretGroup == 0 && rule.Regex.NumSubexp() > 1 {
		return finding.Match
	}
	return finding.Secret
}

// decoded reports whether the finding is in decoded text, which is not in the input.
func decoded(finding report.Finding) bool {
	return slices.ContainsFunc(finding.Tags, func(tag string) bool { return strings.HasPrefix(tag, "decode-depth:") })
}

// findingSpan returns where a finding is. Gitleaks counts lines from 0 and columns from 1. The line break before a
// line is its column 0; the first line has none. A finding that ends on a last line without a line break has no end
// there, so it goes to the end of the text.
func findingSpan(text string, finding report.Finding) span {
	start := lineStart(text, finding.StartLine) + finding.StartColumn - 1
	end := lineStart(text, finding.EndLine) + finding.EndColumn
	if end <= start {
		end = len(text)
	}
	return span{start: start, end: end, name: finding.RuleID}
}

// lineStart returns where gitleaks starts to count the columns of a line: at the line break before it.
func lineStart(text string, line int) int {
	at, from := 0, 0
	for range line {
		next := strings.IndexByte(text[from:], '\n')
		if next < 0 {
			break
		}
		at = from + next
		from = at + 1
	}
	return at
}

// MinNamed is the smallest size in bytes of a secret for [Redactor.Also]: shorter ones occur everywhere.
const MinNamed = 4

// ErrShortSecret is wrapped by [Redactor.Also] for a secret shorter than [MinNamed].
var ErrShortSecret = errors.New("short secret")

// Also returns a Redactor that also removes these secrets, wherever they stand and exactly as they are. They can be,
// for example, values of the command's environment. Also ignores empty secrets, so a variable that is not set needs
// no special case. The receiver stays as it is.
//
// If a secret was cut by the beginning or the end of the bytes, its rest is removed, down to [MinNamed] bytes.
//
// Also wraps [ErrShortSecret] if a secret is too short. The error does not contain the secret.
func (r *Redactor) Also(secrets ...string) (*Redactor, error) {
	all := slices.Clone(r.named)
	for i, secret := range secrets {
		switch {
		case secret == "":
		case len(secret) < MinNamed:
			return nil, fmt.Errorf("%w: number %d of %d has %d bytes; name only what has %d or more",
				ErrShortSecret, i+1, len(secrets), len(secret), MinNamed)
		default:
			all = append(all, secret)
		}
	}
	return &Redactor{patterns: r.patterns, named: all}, nil
}

// named finds the host's secrets, whole or cut at the edges of the text.
func named(secrets []string, text string) []span {
	all := make(map[string]string, len(secrets))
	var found []span
	for _, secret := range secrets {
		all[secret] = "named"
		if n := overlap(secret, text); n > 0 {
			found = append(found, span{end: n, name: "named"})
		}
		if n := overlap(text, secret); n > 0 {
			found = append(found, span{start: len(text) - n, end: len(text), name: "named"})
		}
	}
	return append(found, occurrences(text, all)...)
}

// overlap returns how many bytes the end of one text shares with the beginning of another, 0 if fewer than MinNamed.
func overlap(ends, begins string) int {
	for n := min(len(ends), len(begins)); n >= MinNamed; n-- {
		if strings.HasSuffix(ends, begins[:n]) {
			return n
		}
	}
	return 0
}

// keyRule is gitleaks' name of its pattern for private keys.
const keyRule = "private-key"

// keyMark matches a line that begins or ends a private key, in a file or in a string literal.
var keyMark = regexp.MustCompile(`(?i)-----(BEGIN|END)[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----`)

// keys finds private keys, and the rest of those that were cut: up to an end without a beginning, and from a
// beginning without an end. A beginning counts only if nothing follows on its line, because a message can quote one.
// The pattern of gitleaks finds neither half, and takes a second beginning for the end of the first.
func keys(text string) []span {
	var found []span
	after, begin := 0, -1 // the end of the last whole key, and the beginning of an unfinished one
	until := func(end int) {
		if begin >= 0 && beginsKey(text[begin:end]) {
			found = append(found, span{start: begin, end: end, name: keyRule})
		}
	}
	for _, at := range keyMark.FindAllStringSubmatchIndex(text, -1) {
		switch ends := strings.EqualFold(text[at[2]:at[3]], "end"); {
		case !ends:
			begin = at[0]
		case begin < 0:
			found = append(found, span{start: after, end: at[1], name: keyRule})
		default:
			until(at[1])
			after, begin = at[1], -1
		}
	}
	until(len(text))
	return found
}

var lineEnd = regexp.MustCompile(`^(?:[ \t]*\r?(?:\n|$)|\\n|\\r)`)

func beginsKey(text string) bool {
	return lineEnd.MatchString(text[keyMark.FindStringIndex(text)[1]:])
}
