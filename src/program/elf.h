/* SPDX-License-Identifier: Apache-2.0 */
/* The ELF form of a program, shared by the writer and the reader.
 *
 * ELF64, little endian, ET_EXEC, EM_NONE. Sections: .note.trivet (owner "Trivet": version word, target name, options),
 * .text (words), .data, .data.1 … (host memory with sh_addr; SHT_NOBITS for zeros), .wstream.NAME (pairs of 64-bit
 * address and size), .trivet.require (requirements, NUL-terminated), .symtab and .strtab, .trivet.lines (one 8-byte
 * entry a word: file and column, line), .trivet.files (NUL-terminated names). */
#ifndef TV_PROGRAM_ELF_H
#define TV_PROGRAM_ELF_H

#define TV_ELF_NOTE_OWNER "Trivet"
#define TV_ELF_PROPOSED "proposed" /* after the name of the target: .option proposed */
enum { TV_ELF_NOTE_TYPE = 1, TV_ELF_VERSION = 1, TV_ELF_NAME_MAX = 64 };

#define TV_ELF_NOTE ".note.trivet"
#define TV_ELF_TEXT ".text"
#define TV_ELF_DATA ".data"
#define TV_ELF_STREAM ".wstream."
#define TV_ELF_REQUIRE ".trivet.require"
#define TV_ELF_LINES ".trivet.lines"
#define TV_ELF_FILES ".trivet.files"

#endif
