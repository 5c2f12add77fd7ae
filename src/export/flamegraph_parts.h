/* Inside src/export: the files that a flame graph carries in itself (tools/embed_file.py). */
#ifndef HEFT_EXPORT_FLAMEGRAPH_PARTS_H
#define HEFT_EXPORT_FLAMEGRAPH_PARTS_H

extern const char flamegraph_script[]; /* flamegraph.js */
extern const char flamegraph_style[];  /* flamegraph.css */

#endif
