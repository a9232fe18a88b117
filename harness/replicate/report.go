package replicate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/headscope/headscope/harness"
)

// SchemaVersion is that of a stored [Report].
const SchemaVersion = 1

// Report is what was computed again.
type Report struct {
	Schema        int                 `json:"schema"`
	Kind          string              `json:"kind"` // "replication"
	Tool          harness.Tool        `json:"tool"`
	Files         []FileReport        `json:"files"`
	Compared      int                 `json:"compared"`
	Disagreements int                 `json:"disagreements"`
	Environment   harness.Environment `json:"environment"`
}

// FileReport is one file's share.
type FileReport struct {
	Path   string   `json:"path"`
	Kind   string   `json:"kind"` // profile, utility, ...; "" where nothing in it can be computed again
	Items  []Item   `json:"items"`
	Absent []string `json:"absent"` // numbers that files of this kind have and this one lacks
	Left   []string `json:"left"`   // numbers that nobody can compute again from what is published
	Faults []Fault  `json:"faults"`
}

// left are the numbers that need what is not in the files.
func left(kind string) []string {
	switch kind {
	case kindProfile:
		return []string{"freq_patch.frequency_effect_ci95 (the generator's state)", "accuracies (the trials)"}
	case kindUtility:
		return []string{"cohens_d, clustered_permutation_p, spearman_rho, partial_spearman (a value a head)"}
	case kindInheritance:
		return []string{"rings of models without a profile among the files", "E11 to E15 (the children's other files)"}
	case kindPrediction:
		return []string{"loo_regression"}
	}
	return []string{}
}

// Run reads files, and the .json files of folders, and computes again what they hold. Files that refer to others (inheritance to profiles,
// coverage to a profile) find them among those given, by name. A single file that is of no known kind is an error; in a folder it is
// listed without items.
func Run(ctx context.Context, paths []string) (*Report, error) {
	files, err := openAll(ctx, paths)
	if err != nil {
		return nil, err
	}
	profiles := map[string]*file{}
	for _, f := range files {
		if f.kind() != kindProfile {
			continue
		}
		if other := profiles[f.base]; other != nil && other.path != f.path {
			return nil, fmt.Errorf("%s: a profile of that name is %s", f.path, other.path)
		}
		profiles[f.base] = f
	}
	r := &Report{Schema: SchemaVersion, Kind: "replication", Tool: harness.CurrentTool(), Environment: harness.CurrentEnvironment(nil), Files: []FileReport{}}
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		x := f.report(profiles)
		r.Files = append(r.Files, x)
		for _, it := range x.Items {
			r.Compared++
			if !it.Agrees {
				r.Disagreements++
			}
		}
	}
	return r, nil
}

func (f *file) report(profiles map[string]*file) FileReport {
	s := &sheet{f: f, items: []Item{}, absent: []string{}, faults: []Fault{}}
	kind := f.kind()
	switch kind {
	case kindProfile:
		s.profile()
	case kindCoverage:
		s.coverage(profiles)
	case kindUtility:
		s.utility(profiles)
	case kindBehaviour:
		s.behaviour()
	case kindInheritance:
		s.inheritance(profiles)
	case kindReliability:
		s.reliability(profiles)
	case kindPrediction:
		s.prediction()
	case kindSweep:
		s.sweep()
	}
	return FileReport{f.path, kind, s.items, s.absent, left(kind), s.faults}
}

func openAll(ctx context.Context, paths []string) ([]*file, error) {
	var files []*file
	seen := map[string]bool{}
	for _, path := range paths {
		st, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		list := []string{path}
		if st.IsDir() {
			if list, err = jsonBelow(path); err != nil {
				return nil, err
			}
		}
		for _, p := range list {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if p = filepath.Clean(p); seen[p] {
				continue
			}
			seen[p] = true
			f, err := open(p)
			if err != nil {
				return nil, err
			}
			if f.kind() == kindNone && !st.IsDir() {
				return nil, fmt.Errorf("%s: got a JSON file of no kind that is known, want a published profile, utility, behavior, coverage, inheritance or analysis file", p)
			}
			files = append(files, f)
		}
	}
	return files, nil
}

func jsonBelow(dir string) (list []string, err error) {
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && strings.HasSuffix(path, ".json") {
			list = append(list, path)
		}
		return err
	})
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%s: got no .json files", dir)
	}
	slices.Sort(list)
	return list, err
}

// Write prints a line a file, every item where all is asked for and every disagreement in any case, then the faults.
func (r *Report) Write(w io.Writer, all bool) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "file\tkind\tcompared\tagree\tfaults")
	for _, f := range r.Files {
		agree := 0
		for _, it := range f.Items {
			if it.Agrees {
				agree++
			}
		}
		fmt.Fprintf(tw, "%s\t%s\t%d\t%d\t%d\n", f.Path, kindText(f.Kind), len(f.Items), agree, len(f.Faults))
		for _, it := range f.Items {
			if all || !it.Agrees {
				fmt.Fprintln(tw, it.line())
			}
		}
	}
	errs := []error{tw.Flush()}
	for _, f := range r.Files {
		for _, x := range f.Faults {
			_, err := fmt.Fprintf(w, "%s: %s: %s: %s\n", f.Path, x.Path, x.Code, x.Text)
			errs = append(errs, err)
		}
	}
	_, err := fmt.Fprintf(w, "%d of %d stored numbers agree with what they are computed from\n", r.Compared-r.Disagreements, r.Compared)
	return errors.Join(append(errs, err)...)
}

func kindText(kind string) string {
	if kind == kindNone {
		return "nothing to compute again"
	}
	return kind
}

func (it Item) line() string {
	verdict := "agrees"
	if !it.Agrees {
		verdict = "DIFFERS"
	}
	note := ""
	if it.Note != "" {
		note = " (" + it.Note + ")"
	}
	return fmt.Sprintf("  %s\t%s\t%s\t%s\t%s%s", it.Name, it.Path, show(it.Stored), show(it.Recomputed), verdict, note)
}

// show prints a number, or how many a list has.
func show(x []harness.Number) string {
	if len(x) == 1 {
		if x[0] != x[0] {
			return "undefined"
		}
		return fmt.Sprintf("%.10g", float64(x[0]))
	}
	return fmt.Sprintf("%d values", len(x))
}
