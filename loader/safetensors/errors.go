package safetensors

import "fmt"

// Rule names the rule of the format that a file breaks.
type Rule string

// The rules of a file's header, in the order in which they are checked.
const (
	RuleHeaderTooSmall  Rule = "header too small"          // the file has no room for the 8-byte header length
	RuleHeaderTooLarge  Rule = "header too large"          // the header is longer than MaxHeader
	RuleHeaderLength    Rule = "header beyond end of file" // 8 + header length exceeds the file
	RuleUTF8            Rule = "header is not UTF-8"
	RuleHeaderStart     Rule = "header does not begin with {"
	RuleJSON            Rule = "header is not JSON"
	RuleDuplicateKey    Rule = "duplicate key"    // in the header, in a tensor's object or in __metadata__
	RuleMetadata        Rule = "bad __metadata__" // not an object of strings
	RuleTensorField     Rule = "bad tensor entry" // not an object of exactly dtype, shape and data_offsets
	RuleDType           Rule = "unknown dtype"
	RuleShape           Rule = "bad shape"               // not an array of counts
	RuleDataOffsets     Rule = "bad data_offsets"        // not an array of two counts
	RuleOverflow        Rule = "size overflow"           // a count, the shape's product or the byte size does not fit
	RuleSubByte         Rule = "partial byte"            // a 4- or 6-bit tensor that does not fill its last byte
	RuleNotContiguous   Rule = "data not contiguous"     // sorted by offset, the ranges leave a hole, overlap or run backwards
	RuleTensorSize      Rule = "wrong tensor size"       // end - begin is not what dtype and shape need
	RuleUncoveredBuffer Rule = "data does not fill file" // the last range ends before or after the end of the file
)

// The rules of a shard index, beside RuleUTF8, RuleJSON and RuleDuplicateKey.
const (
	RuleIndexTooLarge      Rule = "index too large"
	RuleIndexField         Rule = "bad index entry" // weight_map missing, empty or not an object of strings
	RuleShardName          Rule = "bad shard name"  // not the plain name of a file in the index's folder
	RuleShardMissing       Rule = "shard missing"
	RuleIndexTensorMissing Rule = "tensor not in its shard" // mapped, but the shard does not hold it
	RuleIndexTensorExtra   Rule = "tensor not in the index" // in a shard, but not mapped
	RuleIndexTensorTwice   Rule = "tensor in two shards"
	RuleIndexTotalSize     Rule = "wrong total_size" // metadata.total_size is not the sum of all tensors' bytes
)

// HeaderError reports a file that breaks a rule of the format.
type HeaderError struct {
	File   string // path, empty where the file has none
	Rule   Rule
	Detail string // what was found and what was wanted
}

func (e *HeaderError) Error() string { return ruleText(e.File, e.Rule, e.Detail) }

// IndexError reports a shard index that breaks a rule or disagrees with its shards.
type IndexError struct {
	File   string // path of the index
	Rule   Rule
	Detail string
}

func (e *IndexError) Error() string { return ruleText(e.File, e.Rule, e.Detail) }

// OpenError reports a path that holds no checkpoint this package reads.
type OpenError struct {
	Path, Problem string
	Hint          string // what the user can do about it
}

func (e *OpenError) Error() string {
	if e.Hint == "" {
		return e.Path + ": " + e.Problem
	}
	return e.Path + ": " + e.Problem + "; " + e.Hint
}

func ruleText(file string, rule Rule, detail string) string {
	text := string(rule)
	if file != "" {
		text = file + ": " + text
	}
	if detail != "" {
		text += ": " + detail
	}
	return text
}

func broken(rule Rule, format string, args ...any) *HeaderError {
	return &HeaderError{Rule: rule, Detail: fmt.Sprintf(format, args...)}
}
