package redact

import (
	"strings"

	"github.com/spf13/viper"
	"github.com/zricethezav/gitleaks/v8/config"
	"github.com/zricethezav/gitleaks/v8/detect"
	"github.com/zricethezav/gitleaks/v8/report"
)

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
	forgetPaths(rules.Rules)
	detector := detect.NewDetector(rules)
	detector.MaxDecodeDepth = decodeDepth
	detector.IgnoreGitleaksAllow = true // the command's output must not decide what is redacted
	return &patterns{detector: detector}, nil
}

// forgetPaths removes the condition on a file name from the rules, because output has no name.
func forgetPaths(rules map[string]config.Rule) {
	for id, rule := range rules {
		if rule.Path != nil && rule.Regex != nil {
			rule.Path = nil
			rules[id] = rule
		}
	}
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
	for _, tag := range finding.Tags {
		if strings.HasPrefix(tag, "decode-depth:") {
			return true
		}
	}
	return false
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
