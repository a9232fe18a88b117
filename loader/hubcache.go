package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const defaultRevision = "main"

// hubRef is org/name[@rev] as the Hugging Face cache knows it.
type hubRef struct{ org, name, rev string }

var (
	repoPart   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	commitHash = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// parseHubRef reads org/name[@rev]; rev is main where none is given. Parts that could leave the cache's folder are refused.
func parseHubRef(ref string) (hubRef, bool) {
	repo, rev, given := strings.Cut(ref, "@")
	if !given {
		rev = defaultRevision
	}
	org, name, ok := strings.Cut(repo, "/")
	if !ok || !repoPart.MatchString(org) || !repoPart.MatchString(name) {
		return hubRef{}, false
	}
	for _, part := range strings.Split(rev, "/") { // refs/pr/3 is a revision
		if !repoPart.MatchString(part) {
			return hubRef{}, false
		}
	}
	return hubRef{org, name, rev}, true
}

// hubCacheDir follows huggingface_hub: HF_HUB_CACHE, HF_HOME/hub, XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub.
func hubCacheDir(getenv func(string) string) (string, error) {
	if dir := getenv("HF_HUB_CACHE"); dir != "" {
		return dir, nil
	}
	if home := getenv("HF_HOME"); home != "" {
		return filepath.Join(home, "hub"), nil
	}
	if cache := getenv("XDG_CACHE_HOME"); cache != "" {
		return filepath.Join(cache, "huggingface", "hub"), nil
	}
	home := getenv("HOME")
	if home == "" {
		return "", &hintError{errors.New("Hugging Face cache: none of HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME and HOME is set"),
			"set HF_HOME, or name the model's folder"}
	}
	return filepath.Join(home, ".cache", "huggingface", "hub"), nil
}

// find returns the snapshot folder of the revision and its commit. Nothing is downloaded.
func (r hubRef) find(cache string) (dir, commit string, err error) {
	repo := filepath.Join(cache, "models--"+r.org+"--"+r.name)
	if _, err := os.Stat(repo); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			return "", "", err
		}
		return "", "", &hintError{fmt.Errorf("%s/%s: not in the Hugging Face cache %s: %w", r.org, r.name, cache, fs.ErrNotExist),
			fmt.Sprintf("fetch it with `%s`, or give the folder it lies in", r.download())}
	}
	commit = r.rev
	if !commitHash.MatchString(r.rev) {
		b, err := os.ReadFile(filepath.Join(repo, "refs", filepath.FromSlash(r.rev)))
		if err != nil {
			return "", "", r.noRevision(repo)
		}
		if commit = strings.TrimSpace(string(b)); !commitHash.MatchString(commit) {
			return "", "", fmt.Errorf("%s: refs/%s: got %.50q, want a commit hash", repo, r.rev, commit)
		}
	}
	dir = filepath.Join(repo, "snapshots", commit)
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return "", "", r.noRevision(repo)
	}
	return dir, commit, nil
}

// download is the command that fetches the revision.
func (r hubRef) download() string {
	if r.rev == defaultRevision {
		return fmt.Sprintf("hf download %s/%s", r.org, r.name)
	}
	return fmt.Sprintf("hf download %s/%s --revision %s", r.org, r.name, r.rev)
}

func (r hubRef) noRevision(repo string) error {
	hint := "fetch it with `" + r.download() + "`"
	if have := revisions(repo); len(have) > 0 {
		hint += "; the cache has " + strings.Join(have, ", ")
	}
	return &hintError{fmt.Errorf("%s/%s: revision %q is not in the Hugging Face cache: %w", r.org, r.name, r.rev, fs.ErrNotExist), hint}
}

// revisions lists what is there for an error's hint: names of refs, else commits. It is best effort, what cannot be listed is left out.
func revisions(repo string) []string {
	var out []string
	refs := filepath.Join(repo, "refs")
	_ = filepath.WalkDir(refs, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if rel, err := filepath.Rel(refs, path); err == nil {
				out = append(out, filepath.ToSlash(rel))
			}
		}
		return nil
	})
	if entries, err := os.ReadDir(filepath.Join(repo, "snapshots")); err == nil {
		for _, e := range entries {
			out = append(out, e.Name())
		}
	}
	slices.Sort(out)
	return out[:min(len(out), 6)]
}
