package main

import (
	"flag"
	"fmt"
	"go/ast"
	"io"
	"os"
	"sort"
	"text/tabwriter"
)

func main() {
	size := flag.Bool("size", false, "print sizes instead of checking")
	flag.Parse()
	findings, err := run(os.Stdout, ".", *size)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	if findings > 0 {
		fmt.Fprintf(os.Stderr, "lint: %d findings\n", findings)
		os.Exit(1)
	}
}

// run checks the tree at root and returns how many findings it wrote to w.
func run(w io.Writer, root string, size bool) (int, error) {
	files, err := sources(root)
	if err != nil {
		return 0, err
	}
	if size {
		return 0, printSizes(w, files)
	}
	var out []string
	for i := range files {
		out = append(out, files[i].check()...)
	}
	out = append(out, checkRooms(files)...)
	docs, err := checkDocs(root)
	if err != nil {
		return 0, err
	}
	out = append(out, docs...)
	for _, line := range out {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return 0, err
		}
	}
	return len(out), nil
}

// roomSize sums up one package.
type roomSize struct {
	files, code, tests int
	longestFile        int
	longestFunc        int
	funcName           string
}

func printSizes(w io.Writer, files []sourceFile) error {
	rooms := map[string]*roomSize{}
	for i := range files {
		f := &files[i]
		r := rooms[f.room]
		if r == nil {
			r = &roomSize{}
			rooms[f.room] = r
		}
		if f.test {
			r.tests += f.lines
			continue
		}
		r.files++
		r.code += f.lines
		r.longestFile = max(r.longestFile, f.lines)
		for _, decl := range f.ast.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok {
				if n := funcLines(f.fset, d); n > r.longestFunc {
					r.longestFunc, r.funcName = n, d.Name.Name
				}
			}
		}
	}
	names := make([]string, 0, len(rooms))
	for name := range rooms {
		names = append(names, name)
	}
	sort.Strings(names)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "package\tfiles\tcode\ttests\tlongest file\tlongest function")
	var code, tests int
	for _, name := range names {
		r := rooms[name]
		code, tests = code+r.code, tests+r.tests
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t%d %s\n", name, r.files, r.code, r.tests, r.longestFile, r.longestFunc, r.funcName)
	}
	fmt.Fprintf(tw, "total\t\t%d\t%d\t\t\n", code, tests)
	return tw.Flush()
}
