/* The page itself, as it was built into the program (tools/embed_page.py); where it was not, words
 * that say so. */
#ifndef HEFT_PAGES_VIEW_PAGE_H
#define HEFT_PAGES_VIEW_PAGE_H

extern const char view_page[]; /* gzipped */
extern const unsigned long view_page_size, view_page_unpacked_size;
extern const char view_page_policy[]; /* Content-Security-Policy */

/* Stands in the page where a one-file report has its documents. */
#define VIEW_PAGE_DATA "<!--heft-data-->"

#endif
