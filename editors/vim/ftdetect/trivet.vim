" SPDX-License-Identifier: Apache-2.0
" Assembly for one of Trivet's machines says so in its first lines.
function! s:Detect() abort
  for line in getline(1, 60)
    if line =~# '\v^\s*\.target\s+%(pccx|opennpu)>'
      setlocal filetype=trivet
      setlocal commentstring=;\ %s comments=:;
      return
    endif
  endfor
endfunction

autocmd BufRead,BufNewFile *.s call s:Detect()
